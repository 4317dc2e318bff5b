use super::header as c;
use super::*;
use std::ffi::CStr;

fn last_error() -> String {
    // SAFETY: the pointer holds until this thread's next call.
    unsafe { CStr::from_ptr(libra_last_error()) }
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_panic_becomes_a_code_and_a_text() {
    let code = enter(|| panic!("three is {}", 4));
    assert_eq!(code, c::LIBRA_E_INTERNAL);
    assert!(last_error().ends_with("please report it: three is 4"));
    let code = enter(|| std::panic::panic_any(17_u8));
    assert_eq!(code, c::LIBRA_E_INTERNAL);
    assert_eq!(enter(|| Ok(3)), 3);
    assert_eq!(last_error(), "");
}

#[test]
fn a_panic_inside_prints_nothing_and_one_outside_still_does() {
    const WHICH: &str = "LIBRA_TEST_PANICS";
    if std::env::var_os(WHICH).is_some() {
        enter(|| panic!("inside of the library"));
        let outside = std::panic::catch_unwind(|| panic!("outside of the library"));
        assert!(outside.is_err());
        return;
    }
    let name = "tests::a_panic_inside_prints_nothing_and_one_outside_still_does";
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args([name, "--exact", "--nocapture"])
        .env(WHICH, "1")
        .output()
        .expect("this program runs");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("outside of the library"), "{printed}");
    assert!(!printed.contains("inside of the library"), "{printed}");
}

#[test]
fn a_book_works_on_after_a_panic_inside() {
    let mut book = std::ptr::null_mut();
    // SAFETY: NULL is the default configuration.
    assert_eq!(unsafe { libra_book_open(std::ptr::null(), &mut book) }, 0);
    assert_eq!(book::poison(book), c::LIBRA_E_INTERNAL);
    // SAFETY: the handle is open.
    assert_eq!(unsafe { libra_book_advance(book, 1.0) }, 0);
    // SAFETY: the last use.
    unsafe { libra_book_close(book) };
}

#[test]
fn every_code_has_its_text() {
    let unknown = strings::text_of(i32::MIN);
    let mut known = std::collections::HashSet::new();
    for code in -999..100 {
        let text = strings::text_of(code);
        assert!(text == unknown || known.insert(text), "{text:?} twice");
    }
    // Those of the header: 19 errors, 7 reasons.
    assert_eq!(known.len(), 32);
}

#[test]
fn texts_are_cut_between_characters() {
    let mut room = [1u8; 4];
    pointers::write_cut(&mut room, "aéé");
    assert_eq!(&room, b"a\xc3\xa9\0");
    pointers::write_cut(&mut room, "aaéé");
    assert_eq!(&room, b"aa\0\0");
    pointers::write_cut(&mut room[..1], "aé");
    assert_eq!(room[0], 0);
    pointers::write_cut(&mut [], "a");
}
