//! Number and character constants, which have every type that can represent their value.

use crate::lexer::ItemKind;
use crate::quote;

/// A constant with its value as each type that can have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Number {
    pub(crate) pos: usize,
    /// The literal.
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

impl Number {
    /// The constant of a literal; the error is the message for the template's author.
    pub(crate) fn parse(pos: usize, text: &str, kind: ItemKind) -> Result<Self, String> {
        let mut number = Self {
            pos,
            text: text.to_owned(),
            ..Self::default()
        };
        match kind {
            ItemKind::CharConstant => number.set_char()?,
            ItemKind::Complex => number.set_complex(parse_complex(text)?),
            _ => number.set_number()?,
        }
        Ok(number)
    }

    fn set_char(&mut self) -> Result<(), String> {
        let (unit, tail) = quote::unquote_char(&self.text[1..], '\'')?;
        if tail != "'" {
            return Err(format!("malformed character constant: {}", self.text));
        }
        let code = unit.code();
        self.int = Some(i64::from(code));
        self.uint = Some(u64::from(code));
        self.float = Some(f64::from(code));
        Ok(())
    }

    fn set_complex(&mut self, value: (f64, f64)) {
        self.complex = Some(value);
        if value.1 == 0.0 {
            self.set_float(value.0);
        }
    }

    fn set_float(&mut self, value: f64) {
        self.float = Some(value);
        if self.int.is_none() && (value as i64) as f64 == value {
            self.int = Some(value as i64);
        }
        if self.uint.is_none() && value >= 0.0 && (value as u64) as f64 == value {
            self.uint = Some(value as u64);
        }
    }

    fn set_number(&mut self) -> Result<(), String> {
        let text = self.text.clone();
        if let Some(value) = text.strip_suffix('i').and_then(parse_float) {
            self.set_complex((0.0, value));
            return Ok(());
        }
        self.uint = parse_uint(&text);
        self.int = parse_int(&text);
        if self.int == Some(0) {
            self.uint = Some(0);
        }
        if let Some(int) = self.int {
            self.float = Some(int as f64);
        } else if let Some(uint) = self.uint {
            self.float = Some(uint as f64);
        } else if let Some(float) = parse_float(&text) {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", quote::quote(&text)));
            }
            self.set_float(float);
        }
        match self.float {
            Some(_) => Ok(()),
            None => Err(format!("illegal number syntax: {}", quote::quote(&text))),
        }
    }
}

fn parse_complex(text: &str) -> Result<(f64, f64), String> {
    let malformed = || "syntax error scanning complex number".to_owned();
    let inner = text.strip_suffix('i').ok_or_else(malformed)?;
    let split = inner.rfind(['+', '-']).ok_or_else(malformed)?;
    let real = parse_float(&inner[..split]).ok_or_else(malformed)?;
    let imaginary = parse_float(&inner[split..]).ok_or_else(malformed)?;
    Ok((real, imaginary))
}

/// Go's `strconv.ParseInt` with base 0.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let value = i128::from(parse_uint(digits)?);
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Go's `strconv.ParseUint` with base 0.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    if !underscores_are_valid(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase().replace('_', "");
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (&lower[..], 10),
    };
    match digits.starts_with(['+', '-']) {
        true => None,
        false => u64::from_str_radix(digits, base).ok(),
    }
}

/// Whether underscores are only between digits, or after a base prefix.
fn underscores_are_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |i: Option<usize>| {
        i.and_then(|i| bytes.get(i))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    let mut underscores = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_');
    underscores.all(|(i, _)| is_digit(i.checked_sub(1)) && is_digit(Some(i + 1)))
}

/// Go's `strconv.ParseFloat` of a literal; a value out of range is none.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    if !underscores_are_valid(text) {
        return None;
    }
    let text = text.replace('_', "");
    let unsigned = text.trim_start_matches(['+', '-']);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return parse_hex_float(&text);
    }
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let value: f64 = text.parse().ok().filter(|_| is_number)?;
    value.is_finite().then_some(value)
}

fn parse_hex_float(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let negative = lower.starts_with('-');
    let (mantissa, exponent) = lower.trim_start_matches(['+', '-'])[2..].split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut value = 0.0_f64;
    for c in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let exponent: i32 = exponent.parse().ok()?;
    let value = value * 2.0_f64.powi(exponent.checked_sub(shift)?);
    (value.is_finite() && !(whole.is_empty() && fraction.is_empty())).then_some(if negative {
        -value
    } else {
        value
    })
}
