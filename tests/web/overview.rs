//! The page of the whole site: all jobs, nodes and days are there, and nothing can be changed.

use crate::client::{Answer, encoded};
use crate::support::Site;
use std::time::{Duration, Instant};

/// Whoever has the token: their cookie.
fn enter(site: &Site) -> String {
    let answer = site.get(&format!("{}?token={}", site.base(), site.token()), "");
    assert_eq!(answer.header("location"), Some("jobs"), "{answer:?}");
    let cookie = answer.header("set-cookie").expect("a cookie");
    cookie.split(';').next().expect("a pair").to_string()
}

fn get(site: &Site, cookie: &str, page: &str) -> Answer {
    let path = format!("{}{page}", site.base());
    site.get(&path, &format!("Cookie: {cookie}\r\n"))
}

#[test]
fn all_is_seen_and_nothing_is_changed() {
    let metrics = tempfile::tempdir().expect("a directory");
    let hour = r#"{"hours": [{"hour": 3600, "accepted": 7, "met": 3, "late": 1, "refused": {"share": 2}}]}"#;
    std::fs::write(metrics.path().join("local.json"), hour).expect("a file");
    let directory = metrics.path().display().to_string();
    let site = Site::with(&["--overview", "--metrics", &directory]);
    let mut job = site
        .libra(&[
            "run",
            "--name",
            "seen",
            "--estimate",
            "50",
            "--deadline",
            "600",
            "--budget",
            "unlimited",
        ])
        .args(["--", "sleep", "1000"])
        .spawn()
        .expect("libra run");
    let end = Instant::now() + Duration::from_secs(60);
    while site.jobs().is_empty() {
        assert!(Instant::now() < end, "the job does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(get(&site, "libra=0", "jobs").status, 403);
    let cookie = enter(&site);
    let jobs = loop {
        let jobs = get(&site, &cookie, "jobs");
        assert_eq!(jobs.status, 200, "{jobs:?}");
        // It is there before its first process.
        if jobs.body.contains("on track") {
            break jobs;
        }
        assert!(Instant::now() < end, "{jobs:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    for part in ["seen", "1 not ended, none in danger", ">local<", " left"] {
        assert!(jobs.body.contains(part), "{part}: {}", jobs.body);
    }
    let none = get(&site, &cookie, "jobs?q=nobody-has-this");
    assert!(none.body.contains("No job is like that"), "{}", none.body);
    let found = get(
        &site,
        &cookie,
        "jobs?q=SEEN+local&which=live&page=99&reloads=yes",
    );
    assert!(found.body.contains("on track"), "{}", found.body);
    assert!(
        found.body.contains("http-equiv=\"refresh\""),
        "{}",
        found.body
    );
    assert!(get(&site, &cookie, "nodes").body.contains("Nodes of local"));
    let days = get(&site, &cookie, "days");
    assert!(days.body.contains("75 %"), "{}", days.body);
    // None of what changes anything is there, by any way.
    for page in [
        "submit", "quote", "cancel", "download", "output", "job", "account", "news",
    ] {
        assert_eq!(get(&site, &cookie, page).status, 404, "{page}");
    }
    let id = site.jobs()[0]["id"].as_str().expect("an id").to_string();
    for page in ["jobs", "cancel", "nodes", "days", ""] {
        let body = format!("job.{}=on&sure=yes", encoded(&id));
        let answer = site.raw(
            format!(
                "POST {}{page} HTTP/1.1\r\nHost: {}\r\nOrigin: http://{}\r\nCookie: {cookie}\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                site.base(),
                site.address(),
                site.address(),
                body.len()
            )
            .as_bytes(),
        );
        assert!(matches!(answer.status, 403..=405), "{page}: {answer:?}");
    }
    assert_eq!(site.jobs()[0]["phase"], "running");
    let done = site.libra(&["cancel", &id]).output().expect("libra");
    assert!(done.status.success(), "{done:?}");
    job.wait().expect("a child");
}
