//! What somebody else may try: another user of this machine, a page on the web, a job with a nasty output.

use crate::support::{Site, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn nobody_comes_in_without_the_token_and_it_is_good_once() {
    let site = Site::new();
    let base = site.base();
    for page in [
        "",
        "submit",
        "jobs",
        "job?id=1",
        "output?id=1",
        "read?id=1",
        "download?id=1",
        "account",
        "cluster",
        "script.js",
        "nowhere",
    ] {
        for cookie in [
            "",
            "Cookie: libra=\r\n",
            "Cookie: libra=0123456789abcdef0123456789abcdef\r\n",
        ] {
            let answer = site.get(&format!("{base}{page}"), cookie);
            assert_eq!(answer.status, 403, "{page} {cookie}");
            assert!(
                answer
                    .body
                    .contains("Open the address that &#39;libra web&#39; printed"),
                "{answer:?}"
            );
            assert!(answer.header("set-cookie").is_none());
        }
    }
    for guess in [
        "",
        "0",
        &site.token()[1..],
        &site.token().to_uppercase().replace(char::is_numeric, "0"),
    ] {
        assert_eq!(
            site.get(&format!("{base}?token={guess}"), "").status,
            403,
            "{guess}"
        );
    }
    let answer = site.get(&format!("{base}?token={}", site.token()), "");
    let cookie = answer.header("set-cookie").expect("a cookie").to_string();
    assert!(
        cookie.contains("; HttpOnly")
            && cookie.contains("; SameSite=Strict")
            && !cookie.contains("Path"),
        "{cookie}"
    );
    assert_eq!(
        answer.header("location"),
        Some("submit"),
        "the token does not stay in the address"
    );
    assert_eq!(
        site.get(&format!("{base}?token={}", site.token()), "")
            .status,
        403,
        "used"
    );
    let own = cookie.split(';').next().expect("a pair");
    assert_eq!(
        site.get(&format!("{base}jobs"), &format!("Cookie: {own}\r\n"))
            .status,
        200
    );
    // Without the secret path there is nothing, whoever asks.
    for path in ["/jobs", "/", "/0123456789abcdef/jobs"] {
        assert_eq!(site.get(path, "").status, 403, "{path}");
    }
}

#[test]
fn other_names_of_this_machine_get_nothing() {
    let site = Site::with(&["--host", "portal.example"]);
    let browser = site.enter();
    let ask = |host: &str| {
        let (base, cookie) = (site.base(), &browser.cookie);
        let head = format!(
            "GET {base}jobs HTTP/1.1\r\n{host}Cookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        site.raw(head.as_bytes())
    };
    for host in [
        "Host: evil.example\r\n",
        "Host: 127.0.0.1.evil.example\r\n",
        "Host: localhost@evil.example\r\n",
    ] {
        let answer = ask(host);
        assert_eq!(answer.status, 403, "{host}");
        assert!(answer.body.contains("Not by this name"), "{answer:?}");
    }
    assert!(ask("").status >= 400);
    assert!(ask("Host: localhost\r\nHost: evil.example\r\n").status >= 400);
    for host in [
        "Host: localhost:9\r\n",
        "Host: portal.example\r\n",
        "Host: [::1]:80\r\n",
    ] {
        assert_eq!(ask(host).status, 200, "{host}");
    }
}

#[test]
fn no_other_page_can_send_a_form() {
    let site = Site::new();
    let browser = site.enter();
    let own = format!("Origin: http://{}\r\n", site.address());
    let work = site.path("work").display().to_string();
    let good = [
        ("script", "echo x"),
        ("estimate", "5"),
        ("deadline", "60"),
        ("budget", "100"),
        ("processors", "1"),
        ("directory", work.as_str()),
    ];
    let word = [("word", browser.word.as_str())];
    for page in ["submit", "quote", "cancel"] {
        let with_word = [&good[..], &word].concat();
        for origin in [
            "",
            "Origin: null\r\n",
            "Origin: http://evil.example\r\n",
            "Origin: http://127.0.0.1:1\r\n",
        ] {
            let answer = browser.post_as(page, origin, &with_word);
            assert_eq!(answer.status, 403, "{page} {origin}");
        }
        for wrong in ["", "0", &browser.word[1..]] {
            let answer = browser.post_as(page, &own, &[&good[..], &[("word", wrong)]].concat());
            assert_eq!(answer.status, 403, "{page} {wrong}");
            assert!(answer.body.contains("Nothing was done"), "{answer:?}");
        }
        // A link or a picture does nothing either.
        if page != "submit" {
            assert_eq!(browser.get(page).status, 405, "{page}");
        }
    }
    assert_eq!(site.jobs().len(), 0);
    assert_eq!(browser.get("submit?do=submit&script=echo").status, 200);
    assert_eq!(site.jobs().len(), 0);
}

#[test]
fn every_answer_forbids_what_no_page_of_ours_needs() {
    let site = Site::new();
    let browser = site.enter();
    let others = [
        site.get("/", ""),
        site.get(&format!("{}style.css", site.base()), ""),
    ];
    for answer in [
        browser.get("submit"),
        browser.get("nowhere"),
        browser.get("script.js"),
    ]
    .into_iter()
    .chain(others)
    {
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{answer:?}");
        }
        assert!(
            !answer.body.contains(" style=\"") && !answer.body.contains(" onclick"),
            "{}",
            answer.body
        );
    }
}

#[test]
fn nothing_gets_out_of_its_field() {
    let site = Site::new();
    let browser = site.enter();
    for (field, value) in [
        ("name", "x\r\nSet-Cookie: libra=evil"),
        ("name", "--help"),
        ("estimate", "5\n--budget=0"),
        ("deadline", "60,budget=0"),
        ("budget", "--config=/etc/passwd"),
        ("processors", "-1"),
        ("directory", "/tmp\n/etc"),
        ("directory", "--help"),
        ("deadline-type", "soft"),
    ] {
        let more = if field == "deadline-type" {
            ("penalty", "1 --x")
        } else {
            ("queue", "")
        };
        let answer = browser.submit(&[(field, value), more]);
        assert_eq!(answer.status, 422, "{field}={value:?}: {answer:?}");
        assert!(answer.header("set-cookie").is_none() && answer.header("location").is_none());
    }
    // Nothing of an address gets into a head either.
    for page in [
        "job?id=%0d%0aSet-Cookie:%20x=y",
        "submit?again=%0d%0aX:%20y",
    ] {
        assert!(browser.get(page).header("set-cookie").is_none());
    }
    assert_eq!(site.jobs().len(), 0);
    // What begins with a dash where that is all right is no option.
    let key = browser
        .submit(&[("script", "#!/bin/sh\necho -- --help '$(id)'\n")])
        .key();
    browser.output(&key, "-- --help $(id)");
}

#[test]
fn only_outputs_of_own_jobs_are_read_and_no_link_is_followed() {
    let site = Site::new();
    let browser = site.enter();
    let secret = site.path("secret");
    fs::write(&secret, "a secret").expect("written");
    let key = browser
        .submit(&[("script", "echo hello; sleep 1000\n")])
        .key();
    browser.output(&key, "hello");
    for id in [
        "../../../../secret",
        "..%2f..%2f..%2f..%2fsecret",
        &format!("{key}/../../../../../../secret"),
        &format!("{key}%00"),
        "/etc/passwd",
        "",
    ] {
        for page in ["job", "output", "read", "download", "job-part", "submit"] {
            let name = if page == "submit" { "again" } else { "id" };
            let answer = browser.get(&format!("{page}?{name}={id}&from=0"));
            assert!(
                !answer.body.contains("a secret") && !answer.body.contains("root:"),
                "{page} {id}: {answer:?}"
            );
        }
    }
    let output = site
        .path("home/.local/state/libra/web/local")
        .join(&key)
        .join("output");
    fs::remove_file(&output).expect("removed");
    std::os::unix::fs::symlink(&secret, &output).expect("a link");
    for page in ["job", "output", "read", "download"] {
        let answer = browser.get(&format!("{page}?id={key}&from=0"));
        assert!(
            answer.body.contains("symbolic link") && !answer.body.contains("a secret"),
            "{answer:?}"
        );
    }
    fs::remove_file(&output).expect("removed");
    nix::unistd::mkfifo(&output, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    // Whoever opened it would wait for ever.
    let answer = browser.get(&format!("output?id={key}&from=0"));
    assert!(answer.body.contains("not a regular file"), "{answer:?}");
    if nix::unistd::getuid().is_root() {
        fs::remove_file(&output).expect("removed");
        fs::write(&output, "somebody else's").expect("written");
        std::os::unix::fs::chown(&output, Some(65534), None).expect("given away");
        let answer = browser.get(&format!("output?id={key}&from=0"));
        assert!(
            answer.body.contains("belongs to somebody else") && !answer.body.contains("else&"),
            "{answer:?}"
        );
    }
}

#[test]
fn jobs_of_others_are_not_there() {
    let site = Site::new();
    let browser = site.enter();
    let key = browser
        .submit(&[("script", "echo hello; sleep 1000\n")])
        .key();
    browser.output(&key, "hello");
    // It is written down after it has begun.
    wait_until("it is written down", || {
        site.jobs()[0]["phase"] == "running"
    });
    let id = site.jobs()[0]["id"].as_str().expect("an id").to_string();
    let file = site.path("registry/jobs").join(format!("{id}.json"));
    let text = fs::read_to_string(&file).expect("an entry");
    let mut entry: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let own = entry["user"].take();
    entry["user"] = 4711.into();
    entry["command"] = "/somewhere/else".into();
    fs::write(&file, entry.to_string()).expect("written");
    site.wait_until_asked_anew(&browser);
    assert!(!browser.get("jobs").body.contains("/somewhere/else"));
    for page in ["job", "output", "read", "download"] {
        let answer = browser.get(&format!("{page}?id={id}&from=0"));
        assert!(answer.body.contains("no such job of yours"), "{answer:?}");
    }
    for sure in ["yes", "no"] {
        let answer = browser.post("cancel", &[(&format!("job.{id}"), "on"), ("sure", sure)]);
        assert_eq!(answer.status, 409);
    }
    let jobs = site.jobs();
    let it = jobs.iter().find(|job| job["id"] == id);
    assert_eq!(it.expect("it is there")["phase"], "running", "it runs on");
    entry["user"] = own;
    fs::write(&file, entry.to_string()).expect("as it was");
}

#[test]
fn what_others_write_stays_text() {
    let site = Site::new();
    let browser = site.enter();
    let nasty = "</textarea></pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'";
    let script = format!("cat <<'END'\n{nasty}\nEND\n");
    let key = browser.submit(&[("script", &script)]).key();
    browser.output(&key, "alert(2)");
    let command = format!("echo {nasty}; sleep 1000");
    let child = site
        .libra(&[
            "run",
            "-W",
            "deadline=60000,budget=unlimited,estimate=5000",
            "--",
            "sh",
            "-c",
            "sleep 1000",
            &command,
        ])
        .spawn();
    let mut child = child.expect("libra run");
    let listed = || browser.get("jobs").body.contains("&lt;script&gt;");
    wait_until("both jobs are listed", || {
        site.jobs().len() == 2 && listed()
    });
    let list = browser.get("jobs");
    // The later of the two, wherever it stands: what has ended is listed last.
    let ids = site.jobs().into_iter().map(|job| {
        job["id"]
            .as_str()
            .expect("an id")
            .parse()
            .expect("a number")
    });
    let by_hand = ids.max().map(|id: u64| id.to_string()).expect("a job");
    assert!(list.body.contains("&lt;script&gt;"), "{list:?}");
    let odd = [("script", nasty), ("estimate", nasty), ("name", nasty)];
    for answer in [
        list,
        browser.get(&format!("job?id={key}")),
        browser.get(&format!("job?id={by_hand}")),
        browser.get(&format!("submit?again={key}")),
        browser.get(&format!("job?id={}", crate::client::encoded(nasty))),
        browser.get(&format!("account?month={}", crate::client::encoded(nasty))),
        browser.submit(&odd),
        browser.post("quote", &odd),
    ] {
        let body = answer
            .body
            .replace("<script src=\"script.js\" defer></script>", "");
        assert!(
            !body.contains("<script")
                && !body.contains("<img")
                && !body.contains("</textarea></pre>"),
            "{body}"
        );
    }
    let cancelled = site.libra(&["cancel", &by_hand]).status();
    assert!(cancelled.is_ok_and(|status| status.success()));
    let _ = child.wait();
}

#[test]
fn too_much_is_refused_with_a_text() {
    let site = Site::new();
    let browser = site.enter();
    let large = browser.submit(&[("script", &"x".repeat((1 << 20) + 1))]);
    assert_eq!(large.status, 422, "decoded too large");
    assert!(large.body.contains("1 MiB"), "it says how much may be");
    let origin = format!("Origin: http://{}\r\n", site.address());
    let huge = browser.post_as(
        "submit",
        &origin,
        &[("script", &"x".repeat(3 << 20)), ("word", &browser.word)],
    );
    assert_eq!(huge.status, 413);
    assert!(
        huge.body.contains("1 MiB") && huge.body.contains("Nothing was submitted"),
        "{huge:?}"
    );
    // One that only says that it is large is not waited for.
    let head = format!(
        "POST {}submit HTTP/1.1\r\nHost: {}\r\n{origin}Cookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n",
        site.base(),
        site.address(),
        browser.cookie
    );
    assert_eq!(site.raw(head.as_bytes()).status, 413);
    let head = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n",
        site.base(),
        site.address(),
        "x".repeat(100_000)
    );
    assert_eq!(site.raw(head.as_bytes()).status, 431);
    assert_eq!(site.jobs().len(), 0);
}

#[test]
fn who_is_slow_on_purpose_is_in_nobodys_way() {
    let site = Site::new();
    let browser = site.enter();
    // More than there is room for, and none of them ever says what it wants; whoever is sent away comes again.
    let silent = || {
        let mut stream = TcpStream::connect(site.address()).expect("a connection");
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
        stream.set_nonblocking(true).expect("a setting");
        stream
    };
    let mut all: Vec<TcpStream> = (0..100).map(|_| silent()).collect();
    let began = Instant::now();
    let mut sent_away = 0;
    for _ in 0..30 {
        assert_eq!(browser.get("jobs").status, 200);
        for stream in &mut all {
            let stays = stream
                .read(&mut [0; 64])
                .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            if !stays {
                *stream = silent();
                sent_away += 1;
            }
        }
    }
    // Each request would wait until the silent have been silent for too long, five minutes and a half.
    assert!(
        began.elapsed() < Duration::from_secs(300),
        "{:?}",
        began.elapsed()
    );
    assert!(sent_away >= 36, "{sent_away}");
}
