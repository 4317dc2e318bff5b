//! `libra web`

use super::args::{Args, WebArgs};
use super::{Done, Failure};
use libra_config::site;
use libra_core::decision::class::Class;
use libra_page::listener::ListenAddress;
use libra_page::overview::Overview;
use libra_page::proxy::{Proxy, Viewers};
use libra_page::serve::{Content, Input, Options, Told, serve};
use libra_page::system::{Kind, Site};
use libra_rules::class_defaults;
use libra_terminal::{say, tell};
use libra_units::duration;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub fn web(web: &WebArgs, args: &Args) -> Done {
    let usage = |what: String| Failure::Usage(what);
    let idle = duration::parse(&web.idle).map_err(|error| usage(format!("--idle: {error}")))?;
    if idle < 1.0 {
        return Err(usage("--idle: expected 1s or more".to_string()));
    }
    for name in &web.host {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(usage(format!(
                "--host '{name}': expected a name without a port, such as portal.example.org"
            )));
        }
    }
    let named = web.system.as_deref().and_then(Kind::named);
    let kind = named.unwrap_or_else(Kind::found);
    let place = match &web.socket {
        Some(path) => ListenAddress::Socket(path.clone()),
        None => ListenAddress::Address(web.listen),
    };
    if !web.listen.ip().is_loopback() {
        return Err(usage(format!(
            "--listen {}: this is not a loopback address; the page is as good as your password, so it is for this machine alone; \
             from another one: ssh -L",
            web.listen
        )));
    }
    let base = base(&web.base).map_err(usage)?;
    let proxy = proxy(web).map_err(usage)?;
    let input = match (web.end_with_input, std::io::stdin().is_terminal()) {
        (true, _) => Input::End,
        (false, true) if proxy.is_none() => Input::Enter,
        (false, _) => Input::Nothing,
    };
    let content = match web.overview {
        true => Content::All(Overview::new(
            site(args)?,
            named.map(|kind| kind.name),
            metrics(web, args),
        )),
        false => Content::Own {
            system: (kind.open)(site(args)?).map_err(Failure::Web)?,
            user: user(),
            history: metrics(web, args)
                .map(|directory| directory.join(format!("{}.json", kind.name))),
        },
    };
    let says = match web.overview {
        true => "all jobs of the site, to be read only",
        false => kind.says,
    };
    let found = web.system.is_none() && !web.overview;
    let json = args.json;
    let shown = place.clone();
    let options = Options {
        place,
        content,
        idle: Duration::from_secs_f64(idle.min(1e9)),
        hosts: web.host.clone(),
        base: base.clone(),
        proxy,
        input,
    };
    let told = |what: Told| {
        let text = match what {
            Told::Address(url) if json => {
                let system = kind.name;
                format!("{}\n", serde_json::json!({"url": url, "system": system}))
            }
            Told::Address(url) => words(&shown, says, found, &url),
            Told::Listens if json => {
                let socket = web.socket.as_deref().map(std::path::Path::display);
                let socket = socket.map(|socket| socket.to_string());
                let system = kind.name;
                let base = slashed(&base);
                format!(
                    "{}\n",
                    serde_json::json!({"socket": socket, "base": base, "system": system})
                )
            }
            Told::Listens => {
                let header = web.user_header.as_deref().unwrap_or_default();
                let socket = web.socket.clone().unwrap_or_default();
                format!(
                    "For {} as the proxy at {} names you by {header}, below {}; {}. Ctrl-C ends the page; jobs run on.\n",
                    user(),
                    socket.display(),
                    slashed(&base),
                    says
                )
            }
            Told::Ended(why) if json => format!("{}\n", serde_json::json!({"ended": why})),
            Told::Ended(why) => format!("Ended: {why}. Jobs run on.\n"),
        };
        // Without a terminal to read it from nobody gets in; there is nothing else that could be done here.
        if let Err(error) = tell(&text).or_else(unread) {
            say(format_args!(
                "libra: cannot write to standard output: {error}"
            ));
        }
    };
    serve(options, &told).map_err(Failure::Web)?;
    Ok(ExitCode::SUCCESS)
}

/// The path that pages are below, without slashes around it.
fn base(given: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "--base '{given}': expected a path of letters, digits and -._~, such as /pun/sys/libra"
        )
    };
    let Some(path) = given.strip_prefix('/') else {
        return Err(wrong());
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(plain);
    match path.is_empty() || path.split('/').all(is_part) {
        true => Ok(path.to_string()),
        false => Err(wrong()),
    }
}

/// The same with slashes.
fn slashed(base: &str) -> String {
    match base {
        "" => "/".to_string(),
        base => format!("/{base}/"),
    }
}

/// Who logs users in; None if a token does.
fn proxy(web: &WebArgs) -> Result<Option<Proxy>, String> {
    let Some(header) = &web.user_header else {
        return Ok(None);
    };
    if web.socket.is_none() {
        return Err(format!(
            "--user-header {header}: a header is believed over a socket in the file system, never over TCP, where any program of this machine can \
             write it; add --socket PATH, and name that to the proxy"
        ));
    }
    let mut trusted = vec![nix::unistd::geteuid().as_raw()];
    if let Some(name) = &web.proxy_user {
        let found = nix::unistd::User::from_name(name).ok().flatten();
        let found = found
            .ok_or_else(|| format!("--proxy-user '{name}': this machine has no user of this name; expected the one that the proxy runs as, such as www-data"))?;
        trusted.push(found.uid.as_raw());
    }
    if let Some(name) = &web.viewers {
        let found = nix::unistd::Group::from_name(name).ok().flatten();
        if found.is_none() {
            return Err(format!(
                "--viewers '{name}': this machine has no group of this name; expected one whose members may see all jobs"
            ));
        }
    }
    let viewers = web.viewers.as_deref().map(Viewers::of);
    let proxy = Proxy::new(header, user(), trusted);
    proxy
        .map(|proxy| Some(proxy.with_viewers(viewers)))
        .map_err(|error| format!("--user-header {error}"))
}

/// Who read it has gone: that is all right.
fn unread(error: std::io::Error) -> Result<(), std::io::Error> {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}

/// What a person is told who has started it.
fn words(place: &ListenAddress, to: &str, found: bool, url: &str) -> String {
    let host = nix::unistd::gethostname();
    let host = host
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let other = if found {
        " (--system says otherwise)"
    } else {
        ""
    };
    let from_elsewhere = match place {
        ListenAddress::Address(_) => {
            let port = url.split(['/', ':']).nth(4).unwrap_or_default();
            format!(
                "If your browser is on another machine, first there:\n\n  ssh -N -L {port}:127.0.0.1:{port} {host}\n\n"
            )
        }
        ListenAddress::Socket(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!(
                "First, where your browser is:\n\n  ssh -N -L 8000:{} {host}\n\n",
                path.display()
            )
        }
    };
    format!(
        "{from_elsewhere}Open in a browser, once; {to}{other}:\n\n  {url}\n\nEnter prints another address, Ctrl-C ends the page; jobs run on.\n"
    )
}

fn user() -> String {
    let id = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(id).ok().flatten();
    user.map_or_else(|| id.to_string(), |user| user.name)
}

/// The directory in which the site keeps what became of jobs; None if it does not.
fn metrics(web: &WebArgs, args: &Args) -> Option<PathBuf> {
    let configured = || {
        // A configuration that cannot be read is said by whatever the page runs.
        let directory = site::load(args.config.as_deref()).ok()?.metrics.directory;
        (!directory.is_empty()).then(|| directory.into())
    };
    web.metrics.clone().or_else(configured)
}

/// Where the site keeps templates; None if it does not.
fn templates(args: &Args) -> Option<PathBuf> {
    // A configuration that cannot be read is said by whatever the page runs.
    let directory = site::load(args.config.as_deref()).ok()?.web.templates;
    (!directory.is_empty()).then(|| directory.into())
}

/// The classes of jobs of this host that name none: of one processor, and of several.
fn classes(args: &Args) -> [Class; 2] {
    let Ok(config) = site::load(args.config.as_deref()) else {
        return [Class::default(); 2];
    };
    let classes = class_defaults(&config);
    let one = classes.default;
    [one, classes.several.unwrap_or(one)]
}

/// This program and the user's directories.
fn site(args: &Args) -> Result<Site, Failure> {
    let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let home = absolute("HOME");
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(home.as_ref()?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::Usage(
            "HOME is not set, so there is no place for scripts and outputs; set it".to_string(),
        )
    })?;
    let libra = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("libra"));
    // Programs run in other directories.
    let config = args
        .config
        .as_ref()
        .map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    Ok(Site {
        libra,
        config,
        state: state.join("libra/web"),
        files: home.unwrap_or_else(here),
        home: here(),
        templates: templates(args),
        classes: classes(args),
    })
}
