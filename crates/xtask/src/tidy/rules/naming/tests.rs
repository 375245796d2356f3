//! The naming rule finds each planted violation, and passes correct uses.

use super::vocabulary::{FILES, GROUPS, TYPES};
use super::{check, parts};
use crate::tidy::planted;

const FILE: &str = "crates/a/src/b.rs";

#[track_caller]
fn check_text(text: &str, lines: &[usize]) {
    let expected: Vec<String> = lines.iter().map(|line| format!("{FILE}:{line}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    planted::check(check, &[(FILE, text)], &expected);
}

#[test]
fn every_word_of_the_vocabulary_is_found_in_a_comment() {
    for word in GROUPS.iter().flat_map(|group| group.words) {
        check_text(&format!("/// The handler {word} it.\nfn f() {{}}\n"), &[1]);
    }
}

#[test]
fn every_word_of_the_vocabulary_is_found_in_identifiers() {
    for word in GROUPS
        .iter()
        .filter(|group| group.in_names)
        .flat_map(|group| group.words)
    {
        check_text(&format!("\nfn is_{word}() {{}}\n"), &[2]);
        check_text(&format!("\n\nlet {word} = 1;\n"), &[3]);
    }
}

#[test]
fn every_type_of_the_vocabulary_is_found() {
    for name in TYPES {
        check_text(&format!("struct {name};\n"), &[1]);
        check_text(&format!("\npub(crate) enum {name} {{}}\n"), &[2]);
    }
}

#[test]
fn a_lone_participle_is_no_type_name() {
    check_text(
        "struct Wanted;\ntrait Following {}\ntype Routed = u8;\n",
        &[1, 2, 3],
    );
    check_text("struct WantedPods;\nstruct Binding;\nlet wanted = 1;\n", &[]);
}

#[test]
fn a_word_inside_a_longer_type_name_is_found() {
    check_text("struct AnswerBody;\nstruct RoomKey;\n", &[1, 2]);
}

#[test]
fn an_identifier_is_reported_once_in_a_file() {
    check_text("fn told() {}\nfn f() { told(); told(); }\n", &[1]);
}

#[test]
fn every_file_name_of_the_vocabulary_is_found() {
    for name in FILES.iter().chain(&["told", "room_key"]) {
        let file = format!("crates/a/src/{name}.rs");
        planted::check(check, &[(&file, "")], &[&file]);
    }
    planted::check(
        check,
        &[("crates/a/src/desk/mod.rs", "")],
        &["crates/a/src/desk/mod.rs"],
    );
}

#[test]
fn markdown_is_held_to_the_words_outside_code() {
    let page = "# Title\n\nNobody `told` it.\n\n```\nwhoever\n```\n\nWhoever.\n";
    planted::check(check, &[("docs/a.md", page)], &["docs/a.md:3", "docs/a.md:9"]);
}

#[test]
fn quotations_code_strings_and_phrases_pass() {
    check_text(
        "// Upstream's \"does not say\", `told`, and edits in place.\n",
        &[],
    );
    check_text("// <https://example.org/definitions/#told>\n", &[]);
    check_text("const A: &str = \"nobody told whoever\";\n", &[]);
}

#[test]
fn an_identifier_is_split_at_underscores_and_capitals() {
    let split = |name| parts(name).collect::<Vec<_>>().join(" ");
    assert_eq!(split("HandlerOptions"), "handler options");
    assert_eq!(split("handler_options"), "handler options");
    assert_eq!(split("MAX_BODY"), "max body");
    assert_eq!(split("Gvk2Name"), "gvk2 name");
}
