//! Strings in double quotes, as Go's `strconv.Quote` and its verb `%q` print them, and so Kubernetes in its messages.

use std::fmt::Write;

/// The text in double quotes. Unlike JSON, `<`, `>` and `&` stay as they are, and control characters are escaped as Go
/// does (`\x01`, `\a`).
///
/// ```
/// use setpoint_api::go_quote::go_quote;
///
/// assert_eq!(go_quote("<a> \"b\"\u{1}"), r#""<a> \"b\"\x01""#);
/// ```
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        push_escaped(character, &mut quoted);
    }
    quoted.push('"');
    quoted
}

fn push_escaped(character: char, quoted: &mut String) {
    let code = u32::from(character);
    let _ = match character {
        '"' => write!(quoted, "\\\""),
        '\\' => write!(quoted, "\\\\"),
        '\u{7}' => write!(quoted, "\\a"),
        '\u{8}' => write!(quoted, "\\b"),
        '\u{c}' => write!(quoted, "\\f"),
        '\n' => write!(quoted, "\\n"),
        '\r' => write!(quoted, "\\r"),
        '\t' => write!(quoted, "\\t"),
        '\u{b}' => write!(quoted, "\\v"),
        control if control.is_ascii_control() => write!(quoted, "\\x{code:02x}"),
        printable if is_printable(printable) => write!(quoted, "{printable}"),
        _ if code < 0x10000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

/// Whether Go prints the character (upstream: `strconv.IsPrint`): letters, marks, numbers, punctuation, symbols and the
/// ASCII space. `str::escape_debug` escapes all others; after a letter it does not escape marks.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    let mut buffer = String::from("a");
    buffer.push(character);
    buffer.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(go_quote(text), expected);
    }

    // The expected values are of a Kubernetes API server, which printed them in its errors.
    #[test]
    fn text_is_quoted_as_go_does() {
        check("<a>&'", r#""<a>&'""#);
        check("a<b\u{1}é\u{2028}\u{7f}", r#""a<b\x01é\u2028\x7f""#);
        check("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#);
        check("\"\\", r#""\"\\""#);
        check("e\u{301} \u{301}😀", "\"e\u{301} \u{301}😀\"");
        check(
            "\u{a0}\u{200b}\u{feff}\u{e0001}",
            r#""\u00a0\u200b\ufeff\U000e0001""#,
        );
    }
}
