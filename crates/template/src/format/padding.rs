//! Flags, width and precision of a directive, and the text that they give to numbers and strings.

use super::format_float;
use super::printer::Printer;
use crate::quote;
use crate::unicode::is_print;

/// The flags of one directive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
    pub(crate) plus: bool,
    pub(crate) minus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// The `+` of `%+v`.
    pub(crate) plus_v: bool,
    /// The `#` of `%#v`.
    pub(crate) sharp_v: bool,
}

/// The digits of a base, and whether letters are upper case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) base: u32,
    pub(crate) is_upper: bool,
}

impl Printer<'_> {
    /// Writes a text, padded to the width.
    pub(super) fn pad(&mut self, text: &str) {
        let width = self.flags.width.unwrap_or(0);
        let missing = width.saturating_sub(text.chars().count());
        if missing == 0 {
            return self.write(text);
        }
        match self.flags.minus {
            true => {
                self.write(text);
                self.write_padding(missing);
            }
            false => {
                self.write_padding(missing);
                self.write(text);
            }
        }
    }

    fn write_padding(&mut self, count: usize) {
        let c = if self.flags.zero && !self.flags.minus {
            "0"
        } else {
            " "
        };
        self.write(&c.repeat(count));
    }

    /// Writes with the zero flag off.
    fn without_zero(&mut self, write: impl FnOnce(&mut Self)) {
        let zero = std::mem::take(&mut self.flags.zero);
        write(self);
        self.flags.zero = zero;
    }

    pub(super) fn format_integer(&mut self, magnitude: u64, negative: bool, base: Base, verb: char) {
        let flags = self.flags;
        let mut least_digits = 0;
        if let Some(precision) = flags.precision {
            if precision == 0 && magnitude == 0 {
                return self.without_zero(|printer| printer.write_padding(flags.width.unwrap_or(0)));
            }
            least_digits = precision;
        } else if let Some(width) = flags.width.filter(|_| flags.zero && !flags.minus) {
            let has_sign = negative || flags.plus || flags.space;
            least_digits = width.saturating_sub(usize::from(has_sign));
        }
        let digits = digits_of(magnitude, base);
        let mut text = with_zeros(&digits, least_digits);
        if flags.sharp {
            match base.base {
                2 => text.insert_str(0, "0b"),
                8 if !text.starts_with('0') => text.insert(0, '0'),
                16 => text.insert_str(0, if base.is_upper { "0X" } else { "0x" }),
                _ => {}
            }
        }
        if verb == 'O' {
            text.insert_str(0, "0o");
        }
        if negative {
            text.insert(0, '-');
        } else if flags.plus {
            text.insert(0, '+');
        } else if flags.space {
            text.insert(0, ' ');
        }
        self.without_zero(|printer| printer.pad(&text));
    }

    pub(super) fn format_unicode(&mut self, code: u64) {
        let least_digits = self.flags.precision.filter(|digits| *digits > 4).unwrap_or(4);
        let mut text = format!("U+{}", with_zeros(&format!("{code:X}"), least_digits));
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        if let Some(c) = c.filter(|c| self.flags.sharp && is_print(*c)) {
            text.push_str(&format!(" '{c}'"));
        }
        self.without_zero(|printer| printer.pad(&text));
    }

    pub(super) fn format_char(&mut self, code: u64) {
        let c = char_of(code);
        self.pad(c.encode_utf8(&mut [0; 4]));
    }

    pub(super) fn format_quoted_char(&mut self, code: u64) {
        let text = quote::quote_char(char_of(code), self.flags.plus);
        self.pad(&text);
    }

    pub(super) fn format_text(&mut self, text: &str) {
        let text = self.truncated(text).to_owned();
        self.pad(&text);
    }

    pub(super) fn format_quoted(&mut self, text: &str) {
        let text = self.truncated(text);
        let quoted = if self.flags.sharp && quote::can_backquote(text) {
            format!("`{text}`")
        } else if self.flags.plus {
            quote::quote_ascii(text)
        } else {
            quote::quote(text)
        };
        self.pad(&quoted);
    }

    fn truncated<'t>(&self, text: &'t str) -> &'t str {
        let end = self
            .flags
            .precision
            .and_then(|chars| text.char_indices().nth(chars));
        end.map_or(text, |(end, _)| &text[..end])
    }

    /// The bytes of a string in base 16.
    pub(super) fn format_bytes(&mut self, text: &str, is_upper: bool) {
        let flags = self.flags;
        let length = flags.precision.unwrap_or(text.len()).min(text.len());
        if length == 0 {
            return self.write_padding(flags.width.unwrap_or(0));
        }
        let prefix = match (flags.sharp, is_upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        let byte = |byte: &u8| {
            if is_upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            }
        };
        let bytes: Vec<String> = text.as_bytes()[..length].iter().map(byte).collect();
        let hex = match flags.space {
            true => format!("{prefix}{}", bytes.join(&format!(" {prefix}"))),
            false => format!("{prefix}{}", bytes.concat()),
        };
        self.pad(&hex);
    }

    pub(super) fn format_float(&mut self, value: f64, verb: char, default_precision: Option<usize>) {
        let flags = self.flags;
        let precision = flags.precision.or(default_precision);
        let mut text = format_float(value, verb, precision);
        if !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        }
        if flags.space && text.starts_with('+') && !flags.plus {
            text.replace_range(..1, " ");
        }
        if !value.is_finite() {
            if value.is_nan() && !flags.space && !flags.plus {
                text.remove(0);
            }
            return self.without_zero(|printer| printer.pad(&text));
        }
        if flags.sharp && verb != 'b' {
            text = with_point(&text, verb, precision);
        }
        if !flags.plus && text.starts_with('+') {
            return self.pad(&text[1..]);
        }
        let width = flags.width.unwrap_or(0);
        if flags.zero && !flags.minus && width > text.len() {
            self.write(&text[..1]);
            self.write_padding(width - text.len());
            return self.write(&text[1..]);
        }
        self.pad(&text);
    }
}

/// A number with a decimal point and the digits of its precision, for the `#` flag.
fn with_point(text: &str, verb: char, precision: Option<usize>) -> String {
    let mut digits = match verb {
        'g' | 'G' | 'x' => precision.unwrap_or(6) as i64,
        _ => 0,
    };
    let is_hex = matches!(verb, 'x' | 'X');
    let tail = text.find(|c| matches!(c, 'p' | 'P') || (!is_hex && matches!(c, 'e' | 'E')));
    let (number, tail) = text.split_at(tail.unwrap_or(text.len()));
    let significant = number[1..]
        .chars()
        .filter(|c| *c != '.')
        .skip_while(|c| *c == '0')
        .count();
    digits -= significant as i64;
    let mut out = number.to_owned();
    if !number.contains('.') {
        if &number[1..] == "0" {
            digits -= 1;
        }
        out.push('.');
    }
    out.push_str(&"0".repeat(usize::try_from(digits).unwrap_or(0)));
    out + tail
}

/// The digits with zeros before them. A width of Rust's own formatting is limited to 65535.
fn with_zeros(digits: &str, least_digits: usize) -> String {
    "0".repeat(least_digits.saturating_sub(digits.len())) + digits
}

fn digits_of(mut magnitude: u64, base: Base) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(magnitude % u64::from(base.base)).unwrap_or_default();
        digits.push(char::from_digit(digit, base.base).unwrap_or('0'));
        magnitude /= u64::from(base.base);
        if magnitude == 0 {
            break;
        }
    }
    let text: String = digits.into_iter().rev().collect();
    if base.is_upper { text.to_uppercase() } else { text }
}

fn char_of(code: u64) -> char {
    u32::try_from(code)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}
