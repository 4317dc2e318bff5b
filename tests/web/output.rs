//! The output of a job: as a terminal shows it, in parts, searched and downloaded, however large it is.

use crate::client::{PATIENCE, text_of};
use crate::support::Site;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn it_is_shown_as_a_terminal_shows_it() {
    let site = Site::new();
    let browser = site.enter();
    let script = "printf '10 %%\\r50 %%\\r\\033[1;32mdone\\033[0m<b>\\033]0;title\\007\\n\\033[31mred\\nstill'\n";
    let key = browser.submit(&[("script", script)]).key();
    let json = browser.output(&key, "still");
    let green = "<span class=\"in-green bold\">done</span>&lt;b&gt;\n";
    assert_eq!(
        json["html"],
        format!("{green}<span class=\"in-red\">red</span>\n")
    );
    assert_eq!(
        json["last"], "<span class=\"in-red\">still</span>",
        "a colour goes on in the next line"
    );
    // So it does where it is read on.
    let (next, style) = (&json["next"], json["style"].as_str().expect("a style"));
    let more = browser.get(&format!("output?id={key}&from={next}&style={style}"));
    assert!(more.body.contains("in-red"), "{more:?}");
    let odd = browser.get(&format!(
        "output?id={key}&from={next}&style=%3Cb%3E;999;38;5"
    ));
    assert!(odd.body.contains("\"last\":\"still\""), "{odd:?}");
    let page = browser.get(&format!("job?id={key}"));
    assert!(page.body.contains(green), "{page:?}");
    let read = browser.get(&format!("read?id={key}"));
    assert!(
        read.body.contains(green) && read.body.contains("All of it"),
        "{read:?}"
    );
}

#[test]
fn parts_lead_to_each_other_lines_are_found_and_all_of_it_is_downloaded() {
    let site = Site::new();
    let browser = site.enter();
    let script =
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo \"line $i <&>\"; done; echo the end\n";
    let key = browser
        .submit(&[("script", script), ("name", "long")])
        .key();
    let file = site
        .path("home/.local/state/libra/web/local")
        .join(&key)
        .join("output");
    let until = Instant::now() + PATIENCE;
    let is_done = || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with("the end\n"));
    while !is_done() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = std::fs::read_to_string(&file).expect("an output");
    // From the beginning to the end by what each part leads to: nothing is missing and nothing is there twice.
    let (mut address, mut read) = (format!("read?id={key}"), String::new());
    loop {
        let page = browser.get(&address).body;
        let shown = page
            .split("<pre")
            .nth(1)
            .and_then(|rest| rest.split_once('>'))
            .expect("a part")
            .1;
        read += &text_of(shown.split("</pre>").next().expect("its end"));
        let later = page
            .split(">Later<")
            .next()
            .filter(|_| page.contains(">Later<"));
        let Some(later) = later else { break };
        address = later
            .rsplit("href=\"")
            .next()
            .expect("an address")
            .trim_end_matches('"')
            .replace("&amp;", "&");
    }
    assert!(read == all, "{} of {} bytes", read.len(), all.len());
    let end = browser.get(&format!("read?id={key}&before={}", all.len()));
    assert!(
        end.body.contains("the end") && end.body.contains(">Earlier<"),
        "{}",
        end.body.len()
    );
    // What is found leads to its line.
    let found = browser
        .get(&format!("read?id={key}&q=LINE+777+%3C%26"))
        .body;
    assert!(
        found.contains("1 line has it.") && found.contains(">Line 777<"),
        "{found}"
    );
    assert!(
        found.contains("<mark>line 777 &lt;&amp;</mark>&gt;"),
        "{found}"
    );
    let to = found
        .split(">Line 777<")
        .next()
        .and_then(|before| before.rsplit("href=\"").next());
    let to = to
        .expect("an address")
        .trim_end_matches('"')
        .replace("&amp;", "&");
    assert!(browser.get(&to).body.contains(">line 777 &lt;"));
    let many = browser.get(&format!("read?id={key}&q=line")).body;
    assert!(many.contains("100 lines have it, up to"), "{many}");
    let on = many
        .split(">Search on<")
        .next()
        .and_then(|before| before.rsplit("href=\"").next());
    let on = on
        .expect("an address")
        .trim_end_matches('"')
        .replace("&amp;", "&");
    assert!(browser.get(&on).body.contains(">Line 101<"));
    assert!(
        browser
            .get(&format!("read?id={key}&q=nowhere"))
            .body
            .contains("No line has it.")
    );
    let download = browser.get(&format!("download?id={key}"));
    assert!(download.body == all, "{} bytes", download.body.len());
    let name = download.header("content-disposition").expect("a name");
    assert!(
        name.starts_with("attachment; filename=\"long-") && name.ends_with(".txt\""),
        "{name}"
    );
    assert_eq!(
        download.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(download.header("x-content-type-options"), Some("nosniff"));
}

/// A gigabyte, most of which is a hole: nothing that is asked for takes its size in memory.
#[test]
fn a_gigabyte_is_no_trouble() {
    let site = Site::new();
    let browser = site.enter();
    let key = browser.submit(&[("script", "echo hello\n")]).key();
    browser.output(&key, "hello");
    let path = site
        .path("home/.local/state/libra/web/local")
        .join(&key)
        .join("output");
    let mut file = File::options().append(true).open(&path).expect("an output");
    file.set_len(1 << 30).expect("a hole");
    file.write_all(b"\nthe end\n").expect("written");
    let before = site.memory();
    let page = browser.get(&format!("job?id={key}"));
    assert!(
        page.body.contains("the end") && page.body.len() < 1 << 20,
        "{} bytes",
        page.body.len()
    );
    assert!(
        browser
            .get(&format!("read?id={key}"))
            .body
            .contains("hello")
    );
    // It ends, found or not: in time, or after so many bytes.
    let found = browser.get(&format!("read?id={key}&q=the+end"));
    assert_eq!(found.status, 200);
    assert!(
        found.body.contains("lines ha") || found.body.contains("line has it"),
        "{found:?}"
    );
    // Somebody downloads it and goes away: those who come after find it free.
    let until = Instant::now() + PATIENCE;
    let mut begun = 0;
    while begun < 8 {
        let mut stream = TcpStream::connect(site.address()).expect("a connection");
        let (base, host, cookie) = (site.base(), site.address(), &browser.cookie);
        let request = format!(
            "GET {base}download?id={key} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut head = [0; 4096];
        let count = stream.read(&mut head).expect("an answer");
        let head = String::from_utf8_lossy(&head[..count]).into_owned();
        if head.contains(" 503 ") {
            // Those before are about to end.
            assert!(Instant::now() < until, "{head}");
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        assert!(head.contains("content-length: 1073741833"), "{head}");
        begun += 1;
    }
    let more = site.memory().saturating_sub(before);
    assert!(more < 100 << 10, "{more} KiB");
}
