//! `wrap`, `wrapWith`, `abbrev` and `abbrevboth`.

use super::super::Type::{Int, String as Text};
use super::super::{Context, Row, row};
use super::text::{bytes, text};
use crate::value::{Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("wrap", &[Int, Text], |context, args| {
        wrap(context, &args[1], args[0].as_int(), ("\n", false))
    }),
    row("wrapWith", &[Int, Text, Text], |context, args| {
        let separator = match args[1].as_str() {
            "" => "\n",
            separator => separator,
        };
        wrap(context, &args[2], args[0].as_int(), (separator, true))
    }),
    row("abbrev", &[Int, Text], |_, args| match args[0].as_int() {
        width if width < 4 => text(args[1].as_str()),
        width => text(abbreviate(args[1].as_str(), 0, width)?),
    }),
    row("abbrevboth", &[Int, Int, Text], |_, args| {
        let (left, right) = (args[0].as_int(), args[1].as_int());
        match right < 4 || (left > 0 && right < 7) {
            true => text(args[2].as_str()),
            false => text(abbreviate(args[2].as_str(), left, right)?),
        }
    }),
];

/// Breaks lines at spaces, by bytes. Long words are broken only if `breaks_words`.
fn wrap(
    context: &Context<'_>,
    value: &Operand,
    width: i64,
    (separator, breaks_words): (&str, bool),
) -> Result<Value, String> {
    let source = value.as_str().as_bytes();
    context.charge(source.len().saturating_mul(separator.len() + 1))?;
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let mut out: Vec<u8> = Vec::new();
    let mut offset = 0;
    while source.len().saturating_sub(offset) > width {
        let rest = &source[offset..];
        if rest[0] == b' ' {
            offset += 1;
            continue;
        }
        let space = rest[..=width].iter().rposition(|byte| *byte == b' ');
        let later = || {
            rest[width..]
                .iter()
                .position(|byte| *byte == b' ')
                .map(|at| at + width)
        };
        let (end, next) = match space {
            Some(space) => (space, space + 1),
            None if breaks_words => (width, width),
            None => match later() {
                Some(space) => (space, space + 1),
                None => break,
            },
        };
        out.extend_from_slice(&rest[..end]);
        out.extend_from_slice(separator.as_bytes());
        offset += next;
    }
    out.extend_from_slice(&source[offset..]);
    text(String::from_utf8_lossy(&out).into_owned())
}

/// The string with ellipses at its end, and at its start if the offset is far enough.
fn abbreviate(value: &str, offset: i64, width: i64) -> Result<String, String> {
    let length = value.len() as i64;
    if length <= width {
        return Ok(value.to_owned());
    }
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return Ok(bytes(value, 0, width - 3)? + "...");
    }
    if width < 7 {
        return Ok(String::new());
    }
    if offset + width - 3 < length {
        let rest = bytes(value, offset, length)?;
        return Ok(format!("...{}", abbreviate(&rest, 0, width - 3)?));
    }
    Ok(format!("...{}", bytes(value, length - (width - 3), length)?))
}
