//! Whole numbers of up to fifteen digits with one of the usual suffixes, as most quantities are: `100m`, `2`, `128Mi`. They are
//! read without the general parser.

use super::{Format, MAX_NANOS, NANOS_PER_UNIT, Quantity};

/// A whole number and its suffix.
#[derive(Debug, Clone, Copy)]
pub(super) struct WholeNumber {
    number: u64,
    format: Format,
    /// One of the suffix in units of 10^-9.
    nanos_of_one: i128,
    has_leading_zero: bool,
}

impl WholeNumber {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > 15 {
            return None;
        }
        let (number, suffix) = bytes.split_at(digits);
        let (format, nanos_of_one) = match suffix {
            b"" => (Format::DecimalSi, NANOS_PER_UNIT),
            b"m" => (Format::DecimalSi, NANOS_PER_UNIT / 1000),
            b"k" => (Format::DecimalSi, NANOS_PER_UNIT * 1000),
            b"M" => (Format::DecimalSi, NANOS_PER_UNIT * 1_000_000),
            b"G" => (Format::DecimalSi, NANOS_PER_UNIT * 1_000_000_000),
            b"Ki" => (Format::BinarySi, NANOS_PER_UNIT << 10),
            b"Mi" => (Format::BinarySi, NANOS_PER_UNIT << 20),
            b"Gi" => (Format::BinarySi, NANOS_PER_UNIT << 30),
            b"Ti" => (Format::BinarySi, NANOS_PER_UNIT << 40),
            _ => return None,
        };
        Some(Self {
            number: number
                .iter()
                .fold(0, |number, digit| number * 10 + u64::from(digit - b'0')),
            format,
            nanos_of_one,
            has_leading_zero: number[0] == b'0',
        })
    }

    pub(super) fn quantity(self) -> Quantity {
        let format = match self.number {
            0 => Format::DecimalSi,
            _ => self.format,
        };
        Quantity {
            nanos: self.nanos().min(MAX_NANOS),
            format,
        }
    }

    /// The amount, which may be above the largest quantity.
    fn nanos(self) -> i128 {
        i128::from(self.number) * self.nanos_of_one
    }

    /// Whether a larger suffix would not make the number shorter, and the amount is not too large.
    pub(super) fn is_canonical(self) -> bool {
        let step = match self.format {
            Format::BinarySi => 1024,
            _ => 1000,
        };
        !self.has_leading_zero && !self.number.is_multiple_of(step) && self.nanos() <= MAX_NANOS
    }
}
