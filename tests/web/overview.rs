//! The page of the whole site: all jobs, nodes and days are there, and nothing can be changed.

use crate::client::{Answer, encoded};
use crate::support::{Site, wait_until};

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
            "50000",
            "--deadline",
            "600000",
            "--budget",
            "unlimited",
        ])
        .args(["--", "sleep", "1000"])
        .spawn()
        .expect("libra run");
    wait_until("the job begins", || {
        site.jobs().iter().any(|job| job["phase"] == "running")
    });
    assert_eq!(get(&site, "libra=0", "jobs").status, 403);
    let cookie = enter(&site);
    // What the page has may be older than the job, or than its start.
    let jobs = || get(&site, &cookie, "jobs");
    wait_until("it is shown to run", || {
        let shown = jobs();
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.body.contains("seen") && shown.body.contains("on track")
    });
    let jobs = jobs();
    for part in [
        "on track",
        "1 not ended, none in danger",
        ">local<",
        " left",
    ] {
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
