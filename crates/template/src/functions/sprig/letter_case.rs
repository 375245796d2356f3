//! Letter case: `upper`, `title`, `snakecase` and others, by the rules of the libraries that Sprig uses.

use super::super::Type::String as Text;
use super::super::{Row, row};
use super::text::text;
use crate::unicode::{is_digit, is_letter, is_space};

pub(super) const ROWS: &[Row] = &[
    row("upper", &[Text], |_, args| {
        text(map_chars(args[0].as_str(), upper))
    }),
    row("lower", &[Text], |_, args| {
        text(map_chars(args[0].as_str(), lower))
    }),
    row("title", &[Text], |_, args| text(title(args[0].as_str()))),
    row("untitle", &[Text], |_, args| text(untitle(args[0].as_str()))),
    row("swapcase", &[Text], |_, args| text(swap_case(args[0].as_str()))),
    row("initials", &[Text], |_, args| text(initials(args[0].as_str()))),
    row("camelcase", &[Text], |_, args| {
        text(pascal_case(args[0].as_str()))
    }),
    row("snakecase", &[Text], |_, args| {
        text(separated_case(args[0].as_str(), '_'))
    }),
    row("kebabcase", &[Text], |_, args| {
        text(separated_case(args[0].as_str(), '-'))
    }),
];

/// The upper-case character, if it is a single one.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

/// The lower-case character, if it is a single one.
fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

fn map_chars(value: &str, map: fn(char) -> char) -> String {
    value.chars().map(map).collect()
}

/// The first letter of each word in upper case. Letters, digits, underscores and marks are inside of words.
fn title(value: &str) -> String {
    let mut before = ' ';
    let map = |c| {
        let is_first = match before.is_ascii() {
            true => !before.is_ascii_alphanumeric() && before != '_',
            false => !is_letter(before) && !is_digit(before) && is_space(before),
        };
        before = c;
        if is_first { upper(c) } else { c }
    };
    value.chars().map(map).collect()
}

fn untitle(value: &str) -> String {
    let mut is_first = true;
    let map = |c| {
        if is_space(c) {
            is_first = true;
            return c;
        }
        if std::mem::take(&mut is_first) {
            lower(c)
        } else {
            c
        }
    };
    value.chars().map(map).collect()
}

fn swap_case(value: &str) -> String {
    value
        .chars()
        .map(|c| match (c.is_uppercase(), c.is_lowercase()) {
            (true, _) => lower(c),
            (_, true) => upper(c),
            _ => c,
        })
        .collect()
}

/// The first byte of each word.
fn initials(value: &str) -> String {
    let mut is_first = true;
    let mut out = String::new();
    for byte in value.bytes() {
        let c = char::from(byte);
        if is_space(c) {
            is_first = true;
        } else if std::mem::take(&mut is_first) {
            out.push(c);
        }
    }
    out
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || is_space(c)
}

/// `FirstName` for `first_name`. Connectors at the start stay.
fn pascal_case(value: &str) -> String {
    let mut out: String = value.chars().take_while(|c| is_connector(*c)).collect();
    let rest = &value[out.len()..];
    let mut chars = rest.chars();
    let Some(first) = chars.next() else {
        return out;
    };
    let mut starts_upper = first.is_uppercase();
    let mut before = upper(first);
    for c in chars {
        let mut current = c;
        if is_connector(c) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            starts_upper = c.is_uppercase();
            current = upper(c);
        } else {
            if starts_upper {
                match c.is_uppercase() {
                    true => current = lower(c),
                    false => starts_upper = false,
                }
            }
            out.push(before);
        }
        before = current;
    }
    out.push(before);
    out
}

/// A piece of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    None,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Symbol,
}

fn is_punctuation(c: char) -> bool {
    match c.is_ascii() {
        true => c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c),
        false => false,
    }
}

/// A letter that is written in words without spaces between them.
fn is_alphabet(c: char) -> bool {
    is_letter(c) && !('\u{1100}'..='\u{a4cf}').contains(&c) && !('\u{ac00}'..='\u{d7ff}').contains(&c)
}

/// The first piece of a name, and the rest.
fn next_piece(value: &str) -> (Piece, &str, &str) {
    let Some(first) = value.chars().next() else {
        return (Piece::None, "", "");
    };
    let end_of = |is_inside: &dyn Fn(char) -> bool| {
        let rest = &value[first.len_utf8()..];
        first.len_utf8() + rest.find(|c| !is_inside(c)).unwrap_or(rest.len())
    };
    let small = |c: char| is_alphabet(c) && !c.is_uppercase();
    let (piece, end) = if is_connector(first) {
        (Piece::Connector, end_of(&is_connector))
    } else if is_punctuation(first) {
        (Piece::Punctuation, end_of(&is_punctuation))
    } else if first.is_uppercase() {
        (Piece::Upper, end_of_upper(value, first))
    } else if is_alphabet(first) {
        (Piece::Alphabet, end_of(&small))
    } else if first.is_numeric() {
        (Piece::Number, end_of(&char::is_numeric))
    } else {
        let is_symbol = |c| !is_connector(c) && !is_alphabet(c) && !c.is_numeric() && !is_punctuation(c);
        (Piece::Symbol, end_of(&is_symbol))
    };
    (piece, &value[..end], &value[end..])
}

/// The end of `Word` or of `WORDS`; the last capital of `HTTPServer` begins the next piece.
fn end_of_upper(value: &str, first: char) -> usize {
    let rest = &value[first.len_utf8()..];
    let capitals = rest.find(|c: char| !c.is_uppercase()).unwrap_or(rest.len());
    if capitals > 0 {
        let end = first.len_utf8() + capitals;
        let last = value[..end].chars().next_back().map_or(0, char::len_utf8);
        let after = value[end..].chars().next();
        return if after.is_some_and(is_alphabet) {
            end - last
        } else {
            end
        };
    }
    let small = rest
        .find(|c: char| !is_alphabet(c) || c.is_uppercase())
        .unwrap_or(rest.len());
    first.len_utf8() + small
}

fn push_lower(out: &mut String, (piece, word): (Piece, &str), connector: char) {
    match piece {
        Piece::Upper => out.extend(word.chars().map(lower)),
        Piece::Connector => out.extend(word.chars().map(|_| connector)),
        _ => out.push_str(word),
    }
}

/// `first_name` for `FirstName`, with the given connector between the pieces.
fn separated_case(value: &str, connector: char) -> String {
    let mut out = String::new();
    let (mut piece, mut word, mut rest) = next_piece(value);
    let separates = |piece| !matches!(piece, Piece::Connector | Piece::Punctuation);
    while !rest.is_empty() {
        if piece != Piece::Connector {
            push_lower(&mut out, (piece, word), connector);
        }
        let (before, last) = (piece, word);
        (piece, word, rest) = next_piece(rest);
        match before {
            Piece::Number => {
                while matches!(piece, Piece::Alphabet | Piece::Number) {
                    push_lower(&mut out, (piece, word), connector);
                    (piece, word, rest) = next_piece(rest);
                }
                if piece != Piece::None && separates(piece) {
                    out.push(connector);
                }
            }
            Piece::Connector => push_lower(&mut out, (before, last), connector),
            Piece::Punctuation => {}
            _ if piece != Piece::Number => {
                if separates(piece) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (piece, word, rest) = next_piece(rest);
                if piece != Piece::Alphabet {
                    push_lower(&mut out, (Piece::Number, number), connector);
                    if separates(piece) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push_lower(&mut out, (Piece::Number, number), connector);
                while matches!(piece, Piece::Alphabet | Piece::Number) {
                    push_lower(&mut out, (piece, word), connector);
                    (piece, word, rest) = next_piece(rest);
                }
                if piece != Piece::None && separates(piece) {
                    out.push(connector);
                }
            }
        }
    }
    push_lower(&mut out, (piece, word), connector);
    out
}
