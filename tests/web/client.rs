//! A client of the page that sends what it is told to, byte for byte.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Nothing takes longer, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A page that is served somewhere.
pub struct Page {
    /// `http://127.0.0.1:PORT/PREFIX/?token=TOKEN`
    pub url: String,
    /// Where its jobs work.
    pub work: PathBuf,
}

impl Page {
    /// `127.0.0.1:PORT`
    pub fn address(&self) -> &str {
        self.url.split('/').nth(2).expect("an address")
    }

    /// `/PREFIX/`
    pub fn base(&self) -> String {
        format!("/{}/", self.url.split('/').nth(3).expect("a path"))
    }

    pub fn token(&self) -> &str {
        self.url.split("token=").nth(1).expect("a token")
    }

    /// Sends this request, whatever it is, and reads the answer to its end.
    pub fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address()).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        // It may answer and close before all is sent.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::read(&bytes)
    }

    /// A GET with these lines of the head.
    pub fn get(&self, path: &str, head: &str) -> Answer {
        let host = self.address();
        self.raw(
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{head}Connection: close\r\n\r\n")
                .as_bytes(),
        )
    }

    /// Comes in with the token.
    pub fn enter(&self) -> Browser<'_> {
        let answer = self.get(&format!("{}?token={}", self.base(), self.token()), "");
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_string();
        let mut browser = Browser {
            page: self,
            cookie,
            word: String::new(),
        };
        browser.word = browser.get("submit").field("word");
        browser
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn read(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let head = lines.filter_map(|line| line.split_once(": "));
        Answer {
            status: status.unwrap_or(0),
            head: head
                .map(|(k, v)| (k.to_lowercase(), v.to_string()))
                .collect(),
            body: body.to_string(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a field of a form in it.
    pub fn field(&self, name: &str) -> String {
        let at = self.body.split(&format!("name=\"{name}\" value=\"")).nth(1);
        let value = at.and_then(|rest| rest.split('"').next());
        value
            .unwrap_or_else(|| panic!("no field {name}: {}", self.body))
            .to_string()
    }

    /// The key of the job that it leads to.
    pub fn key(&self) -> String {
        let to = self
            .header("location")
            .unwrap_or_else(|| panic!("no way on: {self:?}"));
        to.strip_prefix("job?id=")
            .unwrap_or_else(|| panic!("not to a job: {to}"))
            .to_string()
    }
}

/// Somebody who came in.
pub struct Browser<'a> {
    pub page: &'a Page,
    pub cookie: String,
    pub word: String,
}

impl Browser<'_> {
    pub fn get(&self, page: &str) -> Answer {
        let path = format!("{}{page}", self.page.base());
        self.page
            .get(&path, &format!("Cookie: {}\r\n", self.cookie))
    }

    /// A form, with an own Origin and the session's word.
    pub fn post(&self, page: &str, fields: &[(&str, &str)]) -> Answer {
        let origin = format!("Origin: http://{}\r\n", self.page.address());
        self.post_as(page, &origin, &[fields, &[("word", &self.word)]].concat())
    }

    /// A form, and these lines of the head.
    pub fn post_as(&self, page: &str, head: &str, fields: &[(&str, &str)]) -> Answer {
        let pairs = fields
            .iter()
            .map(|(k, v)| format!("{}={}", encoded(k), encoded(v)));
        let body = pairs.collect::<Vec<_>>().join("&");
        self.page.raw(
            format!(
                "POST {}{page} HTTP/1.1\r\nHost: {}\r\n{head}Cookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                self.page.base(),
                self.page.address(),
                self.cookie,
                body.len()
            )
            .as_bytes(),
        )
    }

    /// The fields of a good submission, with these in place of its own. It has a day for its two hours: no machine is so busy that it is late.
    pub fn submit(&self, changes: &[(&str, &str)]) -> Answer {
        let work = self.page.work.display().to_string();
        let good = [
            ("script", "echo hello\n"),
            ("estimate", "7200"),
            ("deadline", "86400"),
            ("budget", "100000"),
            ("processors", "1"),
            ("name", "test"),
            ("directory", work.as_str()),
        ];
        let own = good
            .iter()
            .filter(|(name, _)| !changes.iter().any(|(other, _)| other == name));
        let fields: Vec<(&str, &str)> = own.chain(changes).copied().collect();
        self.post("submit", &fields)
    }

    /// Waits until a job's output has this text, which is then its member `text`.
    pub fn output(&self, key: &str, text: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(&format!("output?id={key}&from=0"));
            let mut json: Value =
                serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
            let part = |name: &str| json[name].as_str().unwrap_or_default().to_string();
            json["text"] = text_of(&(part("html") + &part("last"))).into();
            if json["text"]
                .as_str()
                .is_some_and(|shown| shown.contains(text))
            {
                return json;
            }
            assert!(Instant::now() < end, "waited for {text} in {json}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What a browser shows of this.
pub fn text_of(html: &str) -> String {
    let mut text = String::new();
    for (index, part) in html.split('<').enumerate() {
        let shown = if index == 0 {
            part
        } else {
            part.split_once('>').expect("a whole tag").1
        };
        text += shown;
    }
    let marks = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    marks
        .iter()
        .fold(text, |text, (name, mark)| text.replace(name, mark))
}

pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Answer {
    /// The value of the first button of this name.
    pub fn field_of_button(&self, name: &str) -> String {
        self.field(name).replace("&#39;", "'")
    }
}
