//! The C ABI under hostile arguments: random bytes in structures, random sizes and counts, random
//! text. Whatever comes, a call answers with a code of the header, writes nothing outside of what it
//! was given, writes nothing at all when it fails, and keeps the promises of its answer.
//!
//! `LIBRA_CASES` sets the number of cases (default 100,000), `LIBRA_SEED` where they begin.

// The C ABI is called as C calls it.
#![allow(unsafe_code)]

use libra::header as c;
use libra::*;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::{offset_of, size_of};
use std::ptr;

mod pbs;

/// xorshift64*: the same cases on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Mostly a small one, now and then one that may be too large.
    fn count(&mut self, usual: u64) -> u32 {
        let limit = if self.one_in(9) { 70_000 } else { usual };
        1 + self.below(limit) as u32
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn number(&mut self) -> f64 {
        const ODD: [f64; 16] = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            -1.0,
            1e-3,
            1e10,
            1e15,
            1e300,
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            1.0,
            0.999e-3,
            1.0000001e10,
        ];
        if self.one_in(2) {
            ODD[self.below(16) as usize]
        } else {
            f64::from_bits(self.next())
        }
    }

    /// Sound most of the time, otherwise anything.
    fn sound_or_odd(&mut self, low: f64, high: f64) -> f64 {
        if self.one_in(60) {
            self.number()
        } else {
            self.between(low, high)
        }
    }

    fn text(&mut self) -> CString {
        const PIECES: [&str; 24] = [
            "deadline",
            "=",
            ",",
            "20",
            "budget",
            "estimate",
            "1h",
            ":",
            "unlimited",
            "é",
            "-",
            "00:01:30",
            "soft",
            "deadline_type",
            "penalty_rate",
            "nan",
            "1e999",
            " ",
            "{",
            "\"",
            "\u{1F600}",
            "99999999999999999999",
            ".",
            "\u{7f}",
        ];
        let mut bytes = Vec::new();
        for _ in 0..self.below(12) {
            if self.one_in(8) {
                bytes.push((self.below(255) + 1) as u8);
            } else {
                bytes.extend_from_slice(PIECES[self.below(24) as usize].as_bytes());
            }
        }
        CString::new(bytes).expect("no NUL among them")
    }

    /// A few random bytes over a value.
    fn scribble<T: Copy>(&mut self, value: &mut T) {
        for _ in 0..=self.below(4) {
            let at = self.below(size_of::<T>() as u64) as usize;
            let byte = self.next() as u8;
            // SAFETY: within the value; the structures here are numbers and pointers, which the
            // caller puts right afterwards.
            unsafe { ptr::from_mut(value).cast::<u8>().add(at).write(byte) };
        }
    }
}

fn cases() -> u64 {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    number("LIBRA_CASES").unwrap_or(100_000)
}

fn random() -> Random {
    let seed = std::env::var("LIBRA_SEED")
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    Random(seed.unwrap_or(20_040_101).max(1))
}

fn job(random: &mut Random) -> c::libra_job {
    c::libra_job {
        size: size_of::<c::libra_job>(),
        estimate: random.sound_or_odd(1.0, 100.0),
        deadline: random.sound_or_odd(20.0, 200.0),
        budget: if random.one_in(3) {
            f64::INFINITY
        } else {
            random.sound_or_odd(0.0, 500.0)
        },
        penalty_rate: random.sound_or_odd(0.0, 1.0),
        memory_per_chunk: if random.one_in(3) {
            random.below(3000)
        } else {
            0
        },
        chunks: random.count(6),
        processors_per_chunk: random.count(3),
        deadline_type: random.below(2) as i32,
        scatter: random.below(2) as i32,
    }
}

fn running(random: &mut Random) -> c::libra_running_job {
    c::libra_running_job {
        size: size_of::<c::libra_running_job>(),
        estimate: random.sound_or_odd(1.0, 50.0),
        deadline: random.sound_or_odd(50.0, 500.0),
        cput: random.sound_or_odd(0.0, 60.0),
        walltime: random.sound_or_odd(0.0, 520.0),
        share: random.sound_or_odd(0.0, 1.0),
        memory: random.below(1000),
        slots: if random.one_in(60) {
            0
        } else {
            random.count(2)
        },
        reserved: u32::from(random.one_in(200)),
    }
}

fn node(random: &mut Random) -> c::libra_node {
    c::libra_node {
        size: size_of::<c::libra_node>(),
        processors: random.sound_or_odd(0.0, 4.0),
        rating: random.sound_or_odd(0.5, 2.0),
        memory: if random.one_in(2) {
            u64::MAX
        } else {
            random.below(4000)
        },
        jobs: ptr::null(),
        job_count: 0,
        available: i32::from(!random.one_in(8)),
        reserved: 0,
    }
}

fn blank() -> c::libra_decision {
    // SAFETY: numbers and pointers, all of which may be zero.
    let mut blank: c::libra_decision = unsafe { std::mem::zeroed() };
    blank.size = size_of::<c::libra_decision>();
    blank
}

fn last_error() -> String {
    // SAFETY: it holds until the next call.
    unsafe { CStr::from_ptr(libra_last_error()) }
        .to_str()
        .expect("UTF-8")
        .to_string()
}

/// A code that the header has; never a fault of the library.
fn check_code(code: c_int, case: u64) {
    if code < 0 {
        // SAFETY: a text of the library's, never NULL.
        let known = unsafe { CStr::from_ptr(libra_code_text(code)) };
        assert_ne!(known, c"unknown code", "case {case}: {code}");
        assert_ne!(code, c::LIBRA_E_INTERNAL, "case {case}: {}", last_error());
        assert!(
            !last_error().is_empty(),
            "case {case}: {code} without a text"
        );
    } else {
        assert_eq!(last_error(), "", "case {case}");
    }
}

const CANARY: u8 = 0xC7;

/// The bytes of a value, its padding left out of nothing: these structures have none.
fn bytes<T>(value: &T) -> &[u8] {
    // SAFETY: initialised, and as long as T.
    unsafe { std::slice::from_raw_parts(ptr::from_ref(value).cast(), size_of::<T>()) }
}

#[test]
fn structures_of_random_bytes() {
    let mut random = random();
    let (mut accepted, mut refused, mut failed) = (0u64, 0u64, 0u64);
    for case in 0..cases() {
        let mut asked = job(&mut random);
        let mut runs: Vec<c::libra_running_job> = (0..1 + random.below(4))
            .map(|_| running(&mut random))
            .collect();
        let mut nodes: Vec<c::libra_node> = (0..1 + random.below(6))
            .map(|_| node(&mut random))
            .collect();
        match random.below(12) {
            0 => random.scribble(&mut asked),
            1 => {
                let which = random.below(runs.len() as u64) as usize;
                random.scribble(&mut runs[which]);
            }
            2 => {
                let which = random.below(nodes.len() as u64) as usize;
                random.scribble(&mut nodes[which]);
            }
            _ => {}
        }
        // A size that says more than there is breaks the contract; all others are tried.
        asked.size = asked.size.min(size_of::<c::libra_job>()) | (asked.size & !0xFFFF);
        for run in &mut runs {
            if run.size > size_of::<c::libra_running_job>() {
                run.size = usize::MAX - 7;
            }
        }
        for node in &mut nodes {
            if node.size > size_of::<c::libra_node>() {
                node.size = usize::MAX - 7;
            }
            node.jobs = match random.below(4) {
                0 => ptr::null(),
                _ => runs.as_ptr(),
            };
            node.job_count = match random.below(40) {
                0 => usize::MAX / (1 + random.below(8) as usize),
                1 => runs.len(),
                _ if node.jobs.is_null() => 0,
                _ => random.below(runs.len() as u64 + 1) as usize,
            };
            if node.job_count > runs.len() && node.job_count < usize::MAX / 8 {
                node.job_count = 0;
            }
        }

        // The decision and its buffers, each with canaries behind it.
        #[repr(C)]
        struct Guarded {
            decision: c::libra_decision,
            more: [u8; 64],
        }
        let mut answer = Guarded {
            decision: blank(),
            more: [CANARY; 64],
        };
        let room = random.below(5) as usize;
        // SAFETY: plain numbers.
        let empty: c::libra_placement = unsafe { std::mem::zeroed() };
        let mut placements = vec![empty; 8];
        for placement in &mut placements {
            // SAFETY: plain bytes of a value of plain numbers.
            unsafe { ptr::write_bytes(ptr::from_mut(placement), CANARY, 1) };
        }
        placements[0].size = match random.below(20) {
            0 => random.below(48) as usize,
            _ => size_of::<c::libra_placement>(),
        };
        let text_room = random.below(80) as usize;
        let mut text = [CANARY as c_char; 120];
        answer.decision.placements = placements.as_mut_ptr();
        answer.decision.placement_capacity = room;
        answer.decision.text = text.as_mut_ptr();
        answer.decision.text_capacity = text_room;
        match random.below(40) {
            0 => answer.decision.placements = ptr::null_mut(),
            1 => answer.decision.text = ptr::null_mut(),
            2 => answer.decision.size = random.below(1 << 8) as usize & !15,
            3 => answer.decision.size += 64,
            4 => answer.decision.text_capacity = usize::MAX,
            5 => answer.decision.placement_capacity = usize::MAX / 3,
            _ => {}
        }
        if answer.decision.size > size_of::<Guarded>() {
            answer.decision.size = usize::MAX;
        }
        let count = if random.one_in(100) {
            usize::MAX / (1 + random.below(8) as usize)
        } else {
            nodes.len()
        };
        let before = bytes(&answer.decision).to_vec();
        let placements_before: Vec<u8> =
            placements.iter().flat_map(|p| bytes(p).to_vec()).collect();

        // SAFETY: sizes, counts and capacities never say more than there is, or more than can be.
        let code =
            unsafe { accept_reject_all_nodes(&asked, nodes.as_ptr(), count, &mut answer.decision) };

        check_code(code, case);
        assert_eq!(answer.more, [CANARY; 64], "case {case}");
        let decision = answer.decision;
        let used = if code == 1 {
            decision.placement_count.min(room)
        } else {
            0
        };
        let kept = used * size_of::<c::libra_placement>();
        let placements_after: Vec<u8> = placements.iter().flat_map(|p| bytes(p).to_vec()).collect();
        assert_eq!(
            placements_after[kept..],
            placements_before[kept..],
            "case {case}"
        );
        let untouched = if code < 0 || decision.text.is_null() {
            0
        } else {
            text_room
        };
        assert!(
            text[untouched..].iter().all(|b| *b == CANARY as c_char),
            "case {case}"
        );
        match (code, by_the_paper(&asked, &nodes)) {
            (0 | 1, None) => panic!("case {case}: judged and not sound"),
            (0, Some((surely, _))) => assert!(surely < f64::from(asked.chunks), "case {case}"),
            (1, Some((_, perhaps))) => assert!(perhaps >= f64::from(asked.chunks), "case {case}"),
            (c::LIBRA_E_RANGE | c::LIBRA_E_RESERVED, Some(_)) => {
                panic!("case {case}: sound and not judged: {}", last_error())
            }
            _ => {}
        }
        match code {
            1 => {
                accepted += 1;
                assert!(room == 0 || decision.placement_count <= room, "case {case}");
                assert!(decision.node < nodes.len() && decision.loadfree >= 0.0);
                assert!((0.0..=1.0).contains(&decision.share) && decision.share > 0.0);
                assert!(decision.price > 0.0 && decision.placement_count >= 1);
                if room >= decision.placement_count {
                    let chunks: u32 = placements[..used].iter().map(|p| p.chunks).sum();
                    assert_eq!(chunks, asked.chunks, "case {case}");
                }
            }
            0 => {
                refused += 1;
                assert!((1..=6).contains(&decision.reason), "case {case}");
                if text_room > 0 && !decision.text.is_null() {
                    // SAFETY: a sentence was written, with its NUL.
                    let sentence = unsafe { CStr::from_ptr(text.as_ptr()) };
                    let sentence = sentence.to_str().expect("cut between characters");
                    assert!(sentence.len() <= decision.text_length, "case {case}");
                }
                counter_offers_hold(&asked, &nodes, &decision, case);
            }
            c::LIBRA_E_BUFFER => {
                failed += 1;
                let at = offset_of!(c::libra_decision, placement_count);
                assert!(decision.placement_count > room, "case {case}");
                assert_eq!(bytes(&decision)[..at], before[..at], "case {case}");
            }
            _ => {
                failed += 1;
                assert_eq!(bytes(&decision), before, "case {case}: {code} wrote");
            }
        }
    }
    println!("{accepted} accepted, {refused} refused, {failed} failed");
    // The cases reach all three.
    assert!(accepted > cases() / 20 && refused > cases() / 20 && failed > cases() / 20);
}

/// The answer by the formulas of the paper, written down a second time and without haste.
/// None: something is not as the header wants it. The two numbers of chunks that fit: a little
/// less and a little more than exactly.
fn by_the_paper(asked: &c::libra_job, nodes: &[c::libra_node]) -> Option<(f64, f64)> {
    let seconds = 1e-3..=1e10;
    let amount = 0.0..=1e15;
    let sound = asked.size == size_of::<c::libra_job>()
        && seconds.contains(&asked.estimate)
        && seconds.contains(&asked.deadline)
        && (amount.contains(&asked.budget) || asked.budget == f64::INFINITY)
        && amount.contains(&asked.penalty_rate)
        && (1..=65_536).contains(&asked.chunks)
        && (1..=65_536).contains(&asked.processors_per_chunk)
        && (0..=1).contains(&asked.deadline_type)
        && (0..=1).contains(&asked.scatter);
    if !sound {
        return None;
    }
    let (mut less, mut more) = (0.0, 0.0);
    for node in nodes {
        let sound = node.size == size_of::<c::libra_node>()
            && (0.0..=1e6).contains(&node.processors)
            && (1e-6..=1e6).contains(&node.rating)
            && node.reserved == 0
            && (0..=1).contains(&node.available)
            && (node.job_count == 0 || !node.jobs.is_null())
            && node.job_count < 1000;
        if !sound {
            return None;
        }
        let mut jobs: &[c::libra_running_job] = &[];
        if node.job_count > 0 {
            // SAFETY: so many there are.
            jobs = unsafe { std::slice::from_raw_parts(node.jobs, node.job_count) };
            if jobs[0].size != size_of::<c::libra_running_job>() {
                return None;
            }
        }
        if node.available == 0 {
            continue;
        }
        let (mut free, mut memory) = (node.processors, u128::from(node.memory));
        for job in jobs {
            let sound = job.size == size_of::<c::libra_running_job>()
                && seconds.contains(&job.estimate)
                && seconds.contains(&job.deadline)
                && (0.0..=1e12).contains(&job.cput)
                && (0.0..=1e12).contains(&job.walltime)
                && (0.0..=f64::MAX).contains(&job.share)
                && job.slots > 0
                && job.reserved == 0;
            if !sound {
                return None;
            }
            let estimate = job.estimate / node.rating;
            let share = if job.walltime >= job.deadline {
                1.0
            } else if job.cput >= estimate {
                if job.share > 0.0 {
                    job.share
                } else {
                    estimate / job.deadline
                }
            } else {
                (estimate - job.cput) / (job.deadline - job.walltime)
            };
            free -= share.min(1.0) * f64::from(job.slots);
            memory = memory.saturating_sub(u128::from(job.memory));
        }
        let share = asked.estimate / node.rating / asked.deadline;
        let needed = share * f64::from(asked.processors_per_chunk);
        let mut most = if asked.scatter == 1 {
            1.0
        } else {
            f64::from(asked.chunks)
        };
        if asked.memory_per_chunk > 0 {
            most = most.min((memory / u128::from(asked.memory_per_chunk)) as f64);
        }
        for (sum, slack) in [(&mut less, -1e-6), (&mut more, 1e-6)] {
            if share <= 1.0 + slack {
                let room = node.processors.max(1e-3) * slack;
                *sum += ((free + room) / needed).floor().clamp(0.0, most);
            }
        }
    }
    Some((less, more))
}

/// Each counter-offer, asked as it was given, is accepted.
fn counter_offers_hold(
    asked: &c::libra_job,
    nodes: &[c::libra_node],
    refusal: &c::libra_decision,
    case: u64,
) {
    let mut decision = blank();
    let mut ask = |job: &c::libra_job| {
        // SAFETY: what was judged before, and a decision without buffers.
        unsafe { accept_reject_all_nodes(job, nodes.as_ptr(), nodes.len(), &mut decision) }
    };
    if !refusal.counter_deadline.is_nan() {
        let mut changed = *asked;
        changed.deadline = refusal.counter_deadline;
        assert_eq!(
            ask(&changed),
            1,
            "case {case}: deadline {}",
            changed.deadline
        );
        assert!(changed.deadline > asked.deadline, "case {case}");
    }
    if refusal.counter_chunks > 0 {
        let mut changed = *asked;
        changed.chunks = refusal.counter_chunks;
        changed.processors_per_chunk = refusal.counter_processors;
        let slots =
            |job: &c::libra_job| f64::from(job.chunks) * f64::from(job.processors_per_chunk);
        assert!(slots(&changed) < slots(asked), "case {case}");
        // The same work, as the header says.
        changed.estimate = asked.estimate * slots(asked) / slots(&changed);
        assert_eq!(ask(&changed), 1, "case {case}: {} chunks", changed.chunks);
    }
}

#[test]
fn budgets_of_any_number() {
    let mut random = random();
    for case in 0..cases() {
        let (budget, estimate, deadline) = (
            random.sound_or_odd(0.0, 100.0),
            random.sound_or_odd(1e-3, 100.0),
            random.sound_or_odd(1e-3, 100.0),
        );
        // SAFETY: no pointers.
        let code = unsafe { req_budget(budget, estimate, deadline) };
        check_code(code, case);
        if code >= 0 {
            let price = estimate + estimate / deadline;
            let clear = (price - budget).abs() > 1e-6 * price;
            assert!(!clear || (code == 1) == (price <= budget), "case {case}");
        }
    }
}

#[test]
fn terms_of_any_text() {
    let mut random = random();
    for case in 0..cases() {
        let mut job = job(&mut random);
        let before = bytes(&job).to_vec();
        let text = random.text();
        // SAFETY: a string and a job.
        let code = unsafe { libra_parse_terms(text.as_ptr(), &mut job) };
        check_code(code, case);
        if code < 0 {
            assert_eq!(bytes(&job), before, "case {case}: {text:?}");
        }
    }
}

#[test]
fn a_book_under_random_calls() {
    let mut random = random();
    let mut book: *mut c::libra_book = ptr::null_mut();
    let mut now = 0.0;
    for case in 0..cases() {
        if book.is_null() || random.one_in(5000) {
            // SAFETY: open or NULL; not used again.
            unsafe { libra_book_close(book) };
            // SAFETY: NULL is the default configuration.
            assert_eq!(unsafe { libra_book_open(ptr::null(), &mut book) }, 0);
            now = 0.0;
        }
        let id = if random.one_in(20) {
            random.text()
        } else {
            CString::new(format!("{}.s", random.below(40))).expect("no NUL")
        };
        let name = if random.one_in(50) {
            random.text()
        } else {
            CString::new(format!("n{}", random.below(8))).expect("no NUL")
        };
        now += random.between(0.0, 2.0);
        let at = random.sound_or_odd(now, now + 1.0);
        let mut decision = blank();
        let mut count = 0;
        let mut room = [0u8; 16];
        // SAFETY: an open book, strings, and structures as large as they say.
        let code = unsafe {
            match random.below(15) {
                0 => libra_book_set_node(book, name.as_ptr(), &node(&mut random)),
                1 => libra_book_set_available(book, name.as_ptr(), random.below(3) as c_int),
                2..=4 => {
                    let code = libra_book_admit(book, &job(&mut random), at, &mut decision);
                    if code == 1 && random.one_in(2) {
                        libra_book_bind(book, decision.token, id.as_ptr(), at)
                    } else {
                        code
                    }
                }
                5 => libra_book_bind(book, random.below(100_000), id.as_ptr(), at),
                6 => libra_book_started(book, id.as_ptr(), at),
                7 => {
                    let cput = random.sound_or_odd(0.0, 50.0);
                    let only = if random.one_in(2) {
                        ptr::null()
                    } else {
                        name.as_ptr()
                    };
                    libra_book_progress(book, id.as_ptr(), only, cput, at)
                }
                8 => libra_book_ended(book, id.as_ptr(), at, ptr::null_mut()),
                9 => libra_book_cancel(book, id.as_ptr(), at),
                10 => libra_book_cancel_token(book, random.below(100_000), at),
                11 => libra_book_modify(book, id.as_ptr(), &job(&mut random), at, &mut decision),
                12 => libra_book_allocations(book, id.as_ptr(), ptr::null_mut(), 0, &mut count),
                13 => {
                    let capacity = random.below(9) as usize;
                    let name = room.as_mut_ptr().cast();
                    let code =
                        libra_book_node_name(book, random.below(12) as usize, name, capacity);
                    assert!(room[capacity..].iter().all(|b| *b == 0));
                    code
                }
                _ if random.one_in(50) => through_a_snapshot(book, &mut random, case),
                _ => libra_book_advance(book, at),
            }
        };
        check_code(code, case);
    }
    // SAFETY: its last use.
    unsafe { libra_book_close(book) };
}

/// Rebuilds the book from its own snapshot; now and then from a damaged one.
fn through_a_snapshot(book: *mut c::libra_book, random: &mut Random, case: u64) -> c_int {
    let mut json: *mut c_char = ptr::null_mut();
    // SAFETY: an open book.
    assert_eq!(unsafe { libra_book_snapshot(book, &mut json) }, 0);
    // SAFETY: the library's string, with its NUL.
    let text = unsafe { CStr::from_ptr(json) }.to_owned();
    // SAFETY: its last use.
    unsafe { libra_string_free(json) };
    let mut damaged = text.clone().into_bytes();
    let damage = random.one_in(2);
    if damage {
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.below(94) as u8 + 33;
        }
    }
    let damaged = CString::new(damaged).expect("no NUL");
    let mut problems = ptr::null_mut();
    // SAFETY: an open book and a string.
    let code = unsafe { libra_book_rebuild(book, damaged.as_ptr(), &mut problems) };
    check_code(code, case);
    if !damage {
        assert_eq!(code, 0, "case {case}");
    }
    // SAFETY: the library's string or NULL.
    unsafe { libra_string_free(problems) };
    // SAFETY: as above; whatever the damage did, the clock may go on from here.
    unsafe { libra_book_rebuild(book, text.as_ptr(), ptr::null_mut()) }
}
