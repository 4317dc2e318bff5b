//! What the page does for who may use it.

use crate::client::{Answer, PATIENCE};
use crate::support::{Site, command, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

#[test]
fn a_job_is_submitted_once_and_its_output_read() {
    let site = Site::new();
    let browser = site.enter();
    let once = browser.get("submit").field("once");
    let script = "#!/bin/sh\r\npwd\r\necho \"to stderr\" >&2\r\nsleep 1\r\n";
    let first = browser.submit(&[("script", script), ("once", &once)]);
    let key = first.key();
    let again = browser.submit(&[("script", script), ("once", &once)]);
    assert_eq!(again.key(), key, "the same form again is the same job");
    assert_eq!(site.jobs().len(), 1);
    let output = browser.output(&key, "to stderr");
    let work = site.path("work");
    assert_eq!(output["text"], format!("{}\nto stderr\n", work.display()));
    assert_eq!(output["next"], output["text"].as_str().expect("text").len());
    let part = browser.get(&format!("output?id={key}&from=3"));
    assert!(!part.body.contains(&work.display().to_string()), "{part:?}");
    // Its output may be there before the registry says that it runs; and it may have ended by now.
    let shown = || {
        let page = browser.get(&format!("job?id={key}"));
        let state = ["on track", ">finished<"];
        page.body.contains("to stderr") && state.iter().any(|state| page.body.contains(state))
    };
    wait_until("its page shows what there is", shown);
    // Its files are the user's alone.
    let state = site.path("home/.local/state/libra/web/local");
    let mode =
        |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&state.join(&key)), 0o700);
    assert_eq!(mode(&state.join(&key).join("output")), 0o600);
}

#[test]
fn a_refusal_comes_with_offers_and_one_of_them_is_taken() {
    let site = Site::new();
    let browser = site.enter();
    let refused = browser.submit(&[("budget", "1"), ("script", "echo kept <&>\n")]);
    assert_eq!(refused.status, 200);
    assert!(refused.body.contains("Refused"), "{refused:?}");
    assert!(
        refused.body.contains("echo kept &lt;&amp;&gt;"),
        "nothing is lost: {refused:?}"
    );
    assert_eq!(site.jobs().len(), 0);
    let offer = refused.field_of_button("take");
    let taken = browser.submit(&[("budget", "1"), ("take", &offer)]);
    browser.output(&taken.key(), "hello");
    assert!(site.jobs()[0]["price"].as_f64().expect("a price") > 1.0);
}

#[test]
fn a_price_is_asked_for_and_mistakes_are_said() {
    let site = Site::new();
    let browser = site.enter();
    let terms = |budget| {
        [
            ("estimate", "5"),
            ("deadline", "60"),
            ("budget", budget),
            ("directory", "/"),
            ("processors", "1"),
        ]
    };
    let good = browser.post("quote", &terms("100"));
    assert!(good.body.contains("It would be accepted"), "{good:?}");
    let free = browser.post("quote", &terms(""));
    assert!(
        free.body.contains("It would be accepted") && free.body.contains("budget was given"),
        "{free:?}"
    );
    let bad = browser.post("quote", &terms("lots"));
    assert!(bad.body.contains("lots"), "{bad:?}");
    assert_eq!(site.jobs().len(), 0, "nothing is reserved");
    let missing = browser.submit(&[("directory", "/nonexistent/libra")]);
    assert_eq!(missing.status, 422);
    assert!(
        missing.body.contains("/nonexistent/libra cannot be used"),
        "{missing:?}"
    );
    let month = browser.get("account?month=2026-99");
    assert_eq!(month.status, 400);
    assert_eq!(browser.get("account").status, 200);
    assert_eq!(browser.get("cluster").status, 200);
}

#[test]
fn a_form_is_kept_as_a_template_and_each_mistake_stands_at_its_field() {
    let site = Site::new();
    let browser = site.enter();
    let kept = browser.submit(&[
        ("do", "keep"),
        ("template-name", "mine"),
        ("memory", "8MiB"),
    ]);
    assert!(kept.body.contains("Kept as the template mine"), "{kept:?}");
    let file = site.path("home/.local/state/libra/web/templates/mine");
    let text = fs::read_to_string(&file).expect("a template");
    assert!(
        text.contains("#LIBRA memory=8MiB\n") && text.ends_with("echo hello\n"),
        "{text}"
    );
    assert_eq!(
        fs::metadata(&file).expect("there").permissions().mode() & 0o777,
        0o600
    );
    let again = browser.get("submit?template=own.mine");
    assert!(
        again.body.contains("name=\"memory\" value=\"8MiB\""),
        "{again:?}"
    );
    for name in ["..", "../../x", "-x", ""] {
        let refused = browser.submit(&[("do", "keep"), ("template-name", name)]);
        assert_eq!(refused.status, 422, "{name}: {refused:?}");
    }
    assert_eq!(browser.get("submit?template=own...%2fmine").status, 404);
    assert_eq!(site.jobs().len(), 0, "nothing is submitted by keeping");
    let wrong = [("estimate", "1:30"), ("memory", "lots"), ("array", "1-3")];
    let wrong = browser.submit(&wrong);
    assert_eq!(wrong.status, 422);
    assert_eq!(
        wrong.body.matches("aria-invalid=\"true\"").count(),
        2,
        "{wrong:?}"
    );
    assert_eq!(
        wrong.body.matches("autofocus").count(),
        1,
        "the first of them"
    );
    // Jobs of this host are no arrays: it is said, though there is no field for it.
    assert!(
        wrong.body.contains("Array: jobs here take none"),
        "{wrong:?}"
    );
    // What fits is taken, and looked at by who admits.
    let key = browser.submit(&[("memory", "8MiB")]).key();
    browser.output(&key, "hello");
}

#[test]
fn a_file_that_is_no_text_leaves_what_was_typed() {
    let site = Site::new();
    let browser = site.enter();
    // What the guard makes of such a file.
    let refused = browser.submit(&[("script", "echo kept\r\n"), ("file", "a\0b")]);
    assert_eq!(refused.status, 422);
    assert!(
        refused.body.contains("this file is not text"),
        "{refused:?}"
    );
    assert!(
        refused.body.contains(">\necho kept\n</textarea>"),
        "{refused:?}"
    );
    assert_eq!(site.jobs().len(), 0);
}

#[test]
fn a_job_is_cancelled_and_ended_ones_stay_on_the_list() {
    let site = Site::new();
    let browser = site.enter();
    let key = browser
        .submit(&[("script", "echo begun; sleep 1000\n")])
        .key();
    browser.output(&key, "begun");
    // It is written down after it has begun.
    wait_until("it is written down", || {
        site.jobs()[0]["phase"] == "running"
    });
    // Nothing is ended by one click, nor by a form without a choice.
    let job = format!("job.{key}");
    let asked = browser.post("cancel", &[(&job, "on"), ("state", "live")]);
    assert!(asked.body.contains("This job ends now"), "{asked:?}");
    let all = browser.post("cancel", &[("do", "all"), ("state", "live")]);
    assert!(all.body.contains(&job), "{all:?}");
    let none = browser.post("cancel", &[("do", "all"), ("state", "failed")]);
    assert_eq!(none.status, 409);
    assert_eq!(browser.post("cancel", &[]).status, 409);
    assert_eq!(site.jobs()[0]["phase"], "running");
    let sure = [(job.as_str(), "on"), ("sure", "yes"), ("state", "live")];
    let gone = browser.post("cancel", &sure);
    assert_eq!(gone.header("location"), Some("jobs?state=live"));
    let list = browser.get("jobs");
    assert!(list.body.contains("cancelled"), "{list:?}");
    let twice = browser.post("cancel", &[(&job, "on"), ("sure", "yes")]);
    assert_eq!(twice.status, 409);
    assert!(twice.body.contains("has ended already"), "{twice:?}");
    // Also when libra has forgotten it.
    let ended = fs::read_dir(site.path("registry/ended")).expect("a registry");
    let removed =
        ended.map(|entry| fs::remove_file(entry.expect("an entry").path()).expect("removed"));
    assert_eq!(removed.count(), 1);
    site.wait_until_asked_anew(&browser);
    let list = browser.get("jobs");
    assert!(
        list.body.contains("cancelled") && list.body.contains(&key),
        "{list:?}"
    );
}

#[test]
fn a_list_is_sent_once_and_then_what_has_changed() {
    let site = Site::new();
    let browser = site.enter();
    let key = browser
        .submit(&[("script", "echo begun; sleep 1000\n")])
        .key();
    browser.output(&key, "begun");
    let read = |address: &str| -> serde_json::Value {
        let answer = browser.get(address);
        // Nothing has changed since.
        if answer.status == 204 {
            return serde_json::Value::Null;
        }
        assert_eq!(answer.header("content-type"), Some("application/json"));
        serde_json::from_str(&answer.body).expect("JSON")
    };
    let mut all = serde_json::Value::Null;
    wait_until("it is shown to run", || {
        all = read("jobs-part?news=0");
        all["rows"][&key]
            .as_str()
            .is_some_and(|row| row.contains("on track"))
    });
    let version = all["version"].as_str().expect("a version");
    assert_eq!(all["order"], serde_json::json!([key]));
    // Its state may still change; then only the time that goes on is sent.
    let mut version = version.to_string();
    let end = Instant::now() + PATIENCE;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let next = read(&format!("jobs-part?version={version}&news=0"));
        version = next["version"].as_str().map_or(version, str::to_string);
        if next["bars"][&key].is_array() {
            assert_eq!(next["rows"], serde_json::Value::Null);
            break;
        }
        assert!(Instant::now() < end, "{next}");
    }
    let sure = [(format!("job.{key}"), "on"), ("sure".to_string(), "yes")];
    let sure: Vec<(&str, &str)> = sure
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    browser.post("cancel", &sure);
    let ended = read(&format!("jobs-part?version={version}&news=0"));
    assert!(
        ended["rows"][&key]
            .as_str()
            .is_some_and(|row| row.contains("cancelled"))
    );
    assert!(
        ended["news"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("has ended: cancelled")),
        "{ended}"
    );
    let version = ended["version"].as_str().expect("a version");
    let number = &ended["news"][0]["number"];
    let nothing = browser.get(&format!("jobs-part?version={version}&news={number}"));
    assert_eq!(
        (nothing.status, nothing.body.as_str()),
        (204, ""),
        "{nothing:?}"
    );
    assert_eq!(browser.get(&format!("news?after={number}")).status, 204);
    assert_eq!(read("news?after=0")[0]["key"], serde_json::json!(key));
    // A search that finds nothing, and one that no list was sent for.
    let none = read(&format!(
        "jobs-part?q=nowhere&version={version}&news={number}"
    ));
    assert_eq!(none["order"], serde_json::json!([]));
    assert!(
        browser
            .get("jobs?q=nowhere")
            .body
            .contains("No job of yours is like that")
    );
}

#[test]
fn a_socket_is_its_owners_alone_and_gone_at_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("s");
    let path = socket.display().to_string();
    // One that was left behind is replaced.
    drop(UnixListener::bind(&socket).expect("a socket"));
    let mut site = Site::with(&["--socket", &path]);
    let mode = fs::metadata(&socket).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).expect("a connection");
    let request = format!(
        "GET {}?token={} HTTP/1.1\r\nHost: localhost:8000\r\nConnection: close\r\n\r\n",
        site.base(),
        site.token()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 303"), "{text}");
    // A second one does not take it.
    let second = site
        .libra(&["web", "--system", "local", "--socket", &path])
        .output()
        .expect("libra");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another program listens there"), "{said}");
    site.terminate();
    assert_eq!(site.ended(PATIENCE), Some(0));
    assert!(!socket.exists());
    let file = directory.path().join("file");
    fs::write(&file, "mine").expect("written");
    let done = site
        .libra(&[
            "web",
            "--system",
            "local",
            "--socket",
            &file.display().to_string(),
        ])
        .output();
    assert_eq!(done.expect("libra").status.code(), Some(125));
    assert_eq!(fs::read_to_string(&file).expect("still there"), "mine");
}

/// Of somebody who comes in; None if the page is not there any more.
fn cookie_of(site: &Site) -> Option<String> {
    let (address, base, token) = (site.address(), site.base(), site.token());
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!(
        "GET {base}?token={token} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let answer = Answer::read(&bytes);
    let cookie = answer.header("set-cookie")?;
    cookie.split(';').next().map(str::to_string)
}

#[test]
fn it_ends_by_itself_and_pages_that_ask_by_themselves_do_not_keep_it() {
    // On a machine so busy that it has ended before anybody came in, once more.
    let came_in = (0..10).find_map(|_| {
        let site = Site::with(&["--idle", "20s"]);
        let cookie = cookie_of(&site)?;
        Some((site, cookie))
    });
    let (mut site, cookie) = came_in.expect("a page that somebody comes to");
    let base = site.base();
    // For as long as it is there: it would never end if that kept it.
    let patience = Instant::now() + PATIENCE;
    let ended = loop {
        let ended = site.ended(Duration::from_millis(500));
        if ended.is_some() || Instant::now() > patience {
            break ended;
        }
        let address = site.address();
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = write!(
                stream,
                "GET {base}jobs-part HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\
                 X-Libra-Refresh: 1\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.read_to_end(&mut Vec::new());
        }
    };
    assert_eq!(ended, Some(0));
}

#[test]
fn wrong_arguments_are_said() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("libra.toml"), "").expect("written");
    fs::create_dir(directory.path().join("work")).expect("made");
    for (words, part) in [
        (["--listen", "0.0.0.0:0"], "not a loopback address"),
        (["--idle", "soon"], "--idle"),
        (["--host", "a b"], "--host"),
        (["--system", "none"], "invalid value"),
    ] {
        let done = command(&directory, &["web"])
            .args(words)
            .output()
            .expect("libra");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}
