'use strict';
// Libra's page in Open OnDemand: Passenger starts this as the user, in the user's own nginx. It starts `libra web` at a socket that only this user
// can open, and passes requests on to it. All that the page does is done by `libra web`; what is to be set is in README.md.

const child_process = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const os = require('os');

const SETTINGS = process.env.LIBRA_ONDEMAND_SETTINGS || '/etc/ood/config/apps/libra/env';
const START_TIME = 60000; // ms; a batch system that does not answer is not waited for
const KEPT = 2000; // characters of what it complained of, for the page that says so
// Of one connection, not of a request (RFC 9110, 7.6.1).
const OF_CONNECTION = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'];

// Lines NAME=value, as of systemd's EnvironmentFile: no expansion.
function settings() {
  let text;
  try {
    text = fs.readFileSync(SETTINGS, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw new Error(`${SETTINGS} cannot be read (${error.code})`);
  }
  const found = {};
  text.split('\n').forEach((line, index) => {
    if (/^\s*(#|$)/.test(line)) return;
    const parts = /^\s*([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*$/.exec(line);
    if (!parts) throw new Error(`${SETTINGS}, line ${index + 1}: expected NAME=value`);
    found[parts[1]] = parts[2].replace(/^(["'])(.*)\1$/, '$2');
  });
  return found;
}

// Jobs inherit this: nothing of nginx's and Passenger's, whose PATH and libraries are their own.
function environment(user, set) {
  const own = { HOME: user.homedir, USER: user.username, LOGNAME: user.username, SHELL: user.shell || '/bin/sh', PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin' };
  for (const name of ['LANG', 'TZ']) if (process.env[name]) own[name] = process.env[name];
  return Object.assign(own, set);
}

// A page, once it listens. `gone`: called when it has ended.
function start(gone) {
  return new Promise((resolve, reject) => {
    const user = os.userInfo();
    const set = settings();
    if (!fs.existsSync(user.homedir)) throw new Error(`your home directory ${user.homedir} does not exist`);
    // In /tmp, as a name may have some hundred bytes; nobody can guess it, and only its owner can open it.
    const socket = `/tmp/libra-web-${user.uid}-${crypto.randomBytes(16).toString('hex')}`;
    const words = ['--json', 'web', '--socket', socket, '--base', process.env.PASSENGER_BASE_URI || '/',
      '--user-header', set.LIBRA_USER_HEADER || 'X-Forwarded-User', '--end-with-input', ...(set.LIBRA_WEB_OPTIONS || '').split(/\s+/).filter(Boolean)];
    const program = set.LIBRA || 'libra';
    // It ends with its input, so with this process, however that ends.
    const page = child_process.spawn(program, words, { cwd: user.homedir, env: environment(user, set), stdio: ['pipe', 'pipe', 'pipe'] });
    let said = '';
    let complaint = '';
    const timer = setTimeout(() => page.kill(), START_TIME);
    page.stdin.on('error', () => {});
    page.stdout.setEncoding('utf8').on('data', (text) => {
      if (said.includes('\n')) return;
      said += text;
      if (said.includes('\n')) {
        clearTimeout(timer);
        resolve(socket);
      }
    });
    page.stderr.setEncoding('utf8').on('data', (text) => {
      complaint = (complaint + text).slice(-KEPT);
      process.stderr.write(text);
    });
    page.on('error', (error) => {
      clearTimeout(timer);
      gone();
      reject(new Error(`${program} cannot be started (${error.code})`));
    });
    page.on('close', (code, signal) => {
      clearTimeout(timer);
      gone();
      reject(new Error(complaint.trim() || `${program} ended with ${signal || code}`));
    });
  });
}

let running = null;
// The page that runs, or a new one: it ends when nobody has used it for a while.
function page() {
  if (!running) {
    const gone = () => { if (running === started) running = null; };
    const started = start(() => setImmediate(gone));
    started.catch(gone);
    running = started;
  }
  return running;
}

// Names and values as they came, each as often as it came.
function passed(raw) {
  const headers = Object.create(null);
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index].toLowerCase();
    if (!OF_CONNECTION.includes(name)) headers[name] = (headers[name] || []).concat(raw[index + 1]);
  }
  for (const name of Object.keys(headers)) if (headers[name].length === 1) headers[name] = headers[name][0];
  return headers;
}

function fails(response, error) {
  console.error(`libra: ${error.message}`);
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const text = String(error.message).replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  response.writeHead(502, { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-store' });
  response.end(`<!DOCTYPE html><html lang="en"><title>Libra does not run</title><h1>Libra does not run</h1><p>${text}</p>
<p>Reload this page to try again. If that does not help, tell whoever runs this portal. Jobs are not touched by it.</p></html>\n`);
}

function pass(request, response, socket) {
  const headers = passed(request.rawHeaders);
  // Of a form whose length nobody has said, it is sent in parts.
  if (request.headers['transfer-encoding']) headers['transfer-encoding'] = 'chunked';
  // A connection each: one that is kept could end just when it is used again.
  const asked = http.request({ socketPath: socket, method: request.method, path: request.url, headers, setHost: false, agent: false }, (answer) => {
    response.writeHead(answer.statusCode, passed(answer.rawHeaders));
    answer.on('error', (error) => fails(response, error));
    answer.pipe(response);
  });
  asked.on('error', (error) => fails(response, error));
  response.on('close', () => asked.destroy());
  request.pipe(asked);
}

http.createServer((request, response) => {
  page().then((socket) => pass(request, response, socket)).catch((error) => fails(response, error));
}).listen(3000); // Passenger takes its own socket in place of the port.
