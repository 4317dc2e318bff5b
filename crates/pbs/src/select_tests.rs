//! What users write into select, and what PBS itself would read there.

use super::plain::Plain;
use super::select::parse;

fn plain(select: &str) -> Plain<'_> {
    Plain {
        select: Some(select),
        ..Plain::default()
    }
}

fn written(plain: &Plain<'_>) -> String {
    let resources = plain.best_effort().expect("readable");
    resources["select"].as_str().expect("a text").to_string()
}

/// Refused for every kind of job, in words of one line.
fn refused(select: &str) {
    let all = [
        parse(Some(select), None, None, None, None, &[]).err(),
        plain(select).outside_libra_nodes().err(),
        plain(select).best_effort().err(),
        plain(select).left_alone().err(),
    ];
    for error in all {
        let error = error
            .unwrap_or_else(|| panic!("{select} was taken"))
            .to_string();
        assert!(
            error.len() < 400 && !error.contains(char::is_control),
            "{error:?}"
        );
    }
}

#[test]
fn blanks_around_a_place_are_not_said_back() {
    for place in [
        "excl\t",
        "\u{b}exclhost",
        "\r\x0cexcl:group=host\n",
        "\tno\tplace\r",
    ] {
        let error = parse(Some("1"), Some(place), None, None, None, &[]).expect_err(place);
        let error = error.to_string();
        assert!(!error.contains(char::is_control), "{error:?}");
    }
    let scattered = parse(Some("1"), Some("\tscatter\r"), None, None, None, &[]);
    assert!(scattered.expect("readable").shape.scatter);
}

#[test]
fn capitals_hide_no_resource() {
    for select in ["1:Libra_share=0", "1:LIBRA_node=True", "1:ncpus=1:NCPUS=64"] {
        refused(select);
    }
    assert_eq!(
        written(&plain("2:NCPUS=4:Mem=1gb")),
        "2:ncpus=0:libra_besteffort=4:mpiprocs=1:ompthreads=4:mem=1gb"
    );
    let asked = parse(Some("1:NCPUS=4"), None, None, None, None, &[]).expect("readable");
    assert_eq!(asked.shape.processors_per_chunk, 4);
}

#[test]
fn quotes_hide_no_resource() {
    for select in [
        // PBS takes a quote for one only where the value begins.
        "1:arch=a\"b:ncpus=4:site=d\"c",
        "1:arch=a'b:libra_node=True:site=d'c",
        // What is quoted must not end the quotes that it is written back in.
        "1:arch='x\":libra_besteffort=0:site=\"y'",
        "1:arch=\"x",
        "1:arch='",
        "1:arch='a'b'",
        "1:\"libra_share=1\"",
    ] {
        refused(select);
    }
    assert!(written(&plain("1:arch='a:b'")).ends_with(":arch=\"a:b\""));
    assert!(written(&plain("1:arch=\"a b\"")).ends_with(":arch=\"a b\""));
}

#[test]
fn parentheses_end_no_chunk() {
    // PBS would take `libra_node=False` for a chunk of its own.
    for select in [
        "1:arch=linux)",
        "1:arch=linux)+1:arch=linux",
        "(1:ncpus=1",
        "1:(ncpus=1",
    ] {
        refused(select);
    }
    let kept = plain("1:arch='a)b'+2")
        .outside_libra_nodes()
        .expect("readable");
    assert_eq!(
        kept["select"],
        "1:arch='a)b':libra_node=False+2:libra_node=False"
    );
}

#[test]
fn a_chunk_has_so_many_resources_and_no_more() {
    let long: String = (0..1000).map(|number| format!(":a{number}=1")).collect();
    refused(&format!("1{long}"));
}
