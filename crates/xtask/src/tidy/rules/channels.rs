//! Every channel is bounded, and the code handles the case that it is full.

use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

const UNBOUNDED: &[&str] = &[
    "unbounded_channel",
    "UnboundedSender",
    "UnboundedReceiver",
    "mpsc::unbounded",
    "SegQueue",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree.rust() {
        let words = UNBOUNDED.iter().flat_map(|word| source.production(word));
        let offsets: Vec<usize> = words.chain(without_capacity(source)).collect();
        for offset in offsets {
            report.violation(
                source,
                offset,
                "a channel without a bound: give it a capacity and say what full means",
            );
        }
    }
}

/// The standard library's `mpsc::channel()`; tokio's takes its capacity.
fn without_capacity(source: &Source) -> impl Iterator<Item = usize> {
    source.production("mpsc::channel").filter(|&offset| {
        let rest = &source.code[offset + "mpsc::channel".len()..];
        let arguments = if rest.starts_with("::<") {
            rest.find('(').map_or("", |open| &rest[open..])
        } else {
            rest
        };
        arguments.starts_with("()")
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn an_unbounded_channel_is_found() {
        let files = [(
            "crates/cache/src/a.rs",
            "fn f() {\n let x = mpsc::unbounded_channel();\n}\n",
        )];
        planted::check(check, &files, &["crates/cache/src/a.rs:2"]);
    }

    #[test]
    fn the_standard_librarys_channel_is_found() {
        let files = [(
            "crates/cache/src/a.rs",
            "let a = mpsc::channel();\nlet b = std::sync::mpsc::channel::<u8>();\n",
        )];
        planted::check(
            check,
            &files,
            &["crates/cache/src/a.rs:1", "crates/cache/src/a.rs:2"],
        );
    }

    #[test]
    fn bounded_channels_pass() {
        let files = [(
            "crates/cache/src/a.rs",
            "let a = mpsc::channel(8);\nlet b = oneshot::channel();\n",
        )];
        planted::check(check, &files, &[]);
    }
}
