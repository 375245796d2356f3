//! PEM text: blocks of base64 between two marked lines, as RFC 7468 describes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// One PEM block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The label of its BEGIN line, such as `CERTIFICATE`.
    pub label: String,
    /// Whether lines of the form `key: value` come before the base64.
    pub has_headers: bool,
    pub bytes: Vec<u8>,
}

/// The blocks of a text, in order. Text between them and malformed blocks are skipped.
pub(super) fn blocks(mut text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some(at) = text.find(BEGIN) {
        text = &text[at + BEGIN.len()..];
        if let Some((block, rest)) = block(text) {
            blocks.push(block);
            text = rest;
        }
    }
    blocks
}

/// The block whose label starts the text, and the text after it.
fn block(text: &str) -> Option<(Block, &str)> {
    let (label, rest) = text.split_once(DASHES)?;
    if label.contains('\n') {
        return None;
    }
    let end = format!("-----END {label}-----");
    let (inside, rest) = rest.split_once(&end)?;
    let lines = || inside.lines().map(str::trim);
    let base64: String = lines().filter(|line| !line.contains(':')).collect();
    let block = Block {
        label: label.to_owned(),
        has_headers: lines().any(|line| line.contains(':')),
        bytes: STANDARD.decode(base64).ok()?,
    };
    Some((block, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, bool, &[u8])]) {
        let found = blocks(text);
        let found: Vec<_> = found
            .iter()
            .map(|block| (block.label.as_str(), block.has_headers, block.bytes.as_slice()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_are_found_between_other_text() {
        check(
            "hello\n-----BEGIN A-----\nYWJj\n-----END A-----\nmore\n-----BEGIN B C-----\nk: v\n\nZA==\n-----END B C-----",
            &[("A", false, b"abc"), ("B C", true, b"d")],
        );
    }

    #[test]
    fn malformed_blocks_are_skipped() {
        check("-----BEGIN A-----\n!!\n-----END A-----\n", &[]);
        check("-----BEGIN A-----\nYWJj\n-----END B-----\n", &[]);
        check("", &[]);
    }
}
