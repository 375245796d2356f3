//! Quantities: amounts of resources such as memory and CPU time.
//!
//! `500m`, `1.5Gi`, `3e6`: a decimal number with a suffix of one of three formats. A quantity keeps its format and
//! prints in that format's canonical form, in which equal amounts have equal texts:
//! <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>.

mod whole_number;

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Neg, Sub};
use std::str::FromStr;

use whole_number::WholeNumber;

/// An amount, exact to 10^-9, with the suffix format it was parsed from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    /// In units of 10^-9. At most 2^63 - 1 whole units on either side of zero.
    nanos: i128,
    format: Format,
}

/// The suffix formats (upstream: `resource.Format`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`: powers of 1000.
    #[default]
    DecimalSi,
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`: powers of 1024.
    BinarySi,
    /// `e` and a power of ten.
    DecimalExponent,
}

/// A text that is not a quantity (upstream: `ErrFormatWrong`, `ErrNumeric`, `ErrSuffix`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseQuantityError {
    FormatWrong,
    Numeric,
    Suffix,
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const MAX_NANOS: i128 = i64::MAX as i128 * NANOS_PER_UNIT;
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

// === impl Quantity ===

impl Quantity {
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSi,
    };

    /// Whole units.
    pub fn new(value: i64, format: Format) -> Self {
        Self {
            nanos: i128::from(value) * NANOS_PER_UNIT,
            format,
        }
    }

    /// Thousandths, as CPU time is counted.
    pub fn from_milli(value: i64) -> Self {
        Self {
            nanos: i128::from(value) * (NANOS_PER_UNIT / 1000),
            format: Format::DecimalSi,
        }
    }

    pub fn format(self) -> Format {
        self.format
    }

    /// In whole units, rounded away from zero.
    pub fn value(self) -> i64 {
        saturate(divide_up(self.nanos, NANOS_PER_UNIT))
    }

    /// In thousandths, rounded away from zero.
    pub fn milli_value(self) -> i64 {
        saturate(divide_up(self.nanos, NANOS_PER_UNIT / 1000))
    }

    /// The same amount in whole thousandths, rounded away from zero.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        let milli = NANOS_PER_UNIT / 1000;
        Self {
            nanos: divide_up(self.nanos, milli) * milli,
            ..self
        }
    }

    /// The amount, if it is a whole number.
    pub fn as_i64(self) -> Option<i64> {
        let is_whole = self.nanos % NANOS_PER_UNIT == 0;
        i64::try_from(self.nanos / NANOS_PER_UNIT)
            .ok()
            .filter(|_| is_whole)
    }

    /// The amount as the nearest double.
    pub fn as_approximate_f64(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    fn print_decimal(self, f: &mut fmt::Formatter<'_>, format: Format) -> fmt::Result {
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 {
            (number, exponent) = (number / 1000, exponent + 3);
        }
        if format == Format::DecimalExponent {
            return match exponent {
                0 => write!(f, "{number}"),
                exponent => write!(f, "{number}e{exponent}"),
            };
        }
        let suffix = DECIMAL.iter().find(|(_, own)| *own == exponent);
        let (suffix, _) = suffix.expect("an amount within bounds has a suffix");
        write!(f, "{number}{suffix}")
    }

    fn print_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut power) = (self.nanos / NANOS_PER_UNIT, 0);
        while number % 1024 == 0 && power + 1 < BINARY.len() {
            (number, power) = (number / 1024, power + 1);
        }
        write!(f, "{number}{}", BINARY[power])
    }
}

/// Compares amounts; the format does not matter.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The sum has the format of the left side, unless that is zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self {
            nanos: (self.nanos + other.nanos).clamp(-MAX_NANOS, MAX_NANOS),
            format,
        }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            nanos: -self.nanos,
            ..self
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        match self.format {
            _ if self.is_zero() => f.write_str("0"),
            Format::BinarySi if whole && self.nanos.abs() >= 1024 * NANOS_PER_UNIT => self.print_binary(f),
            Format::BinarySi => self.print_decimal(f, Format::DecimalSi),
            format => self.print_decimal(f, format),
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        if let Some(whole) = WholeNumber::parse(text) {
            return Ok(whole.quantity());
        }
        let (negative, number, suffix) = split(text)?;
        let (digits, decimals) = digits(number);
        let (format, exponent, factor) = scale(suffix)?;
        let nanos = scaled(digits, exponent - decimals + 9, factor);
        let format = match format {
            Format::BinarySi if nanos < NANOS_PER_UNIT => Format::DecimalSi,
            format => format,
        };
        let nanos = if negative { -nanos } else { nanos };
        Ok(Self { nanos, format })
    }
}

// === Canonical text ===

/// Whether a text is obviously in Kubernetes' canonical form: a whole number with the largest suffix. Other texts may be in
/// it, too.
pub fn is_obviously_canonical(text: &str) -> bool {
    WholeNumber::parse(text).is_some_and(WholeNumber::is_canonical)
}

/// The text of a quantity in the API, in Kubernetes' canonical form. The text itself is kept if Kubernetes' quick check of
/// the number finds it canonical, with a sign or leading zeros it may have.
pub fn canonical_text(text: &str) -> Result<String, ParseQuantityError> {
    let quantity: Quantity = text.parse()?;
    Ok(match kept_scale(text) {
        Some(_) => text.to_owned(),
        None => quantity.to_string(),
    })
}

/// The same of a quantity in a resource list, which is rounded up to milli-units.
pub fn canonical_text_in_list(text: &str) -> Result<String, ParseQuantityError> {
    let quantity: Quantity = text.parse()?;
    Ok(match kept_scale(text) {
        Some(-3..) => text.to_owned(),
        _ => quantity.round_up_to_milli().to_string(),
    })
}

/// The power of ten of the number's last digit, if the text is kept.
fn kept_scale(text: &str) -> Option<i32> {
    let (_, number, suffix) = split(text).ok()?;
    let (format, exponent, factor) = scale(suffix).ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let digits = format!("{whole}{fraction}");
    let value: i64 = digits.parse().ok()?;
    if format == Format::BinarySi {
        let power = factor.ilog2() as usize;
        let is_short = whole.len() + power * 3 / 10 < 15;
        return (is_short && fraction.is_empty() && value & 7 != 0).then_some(0);
    }
    let scale = exponent - fraction.len() as i32;
    let is_kept = digits.len() <= 18 && scale >= -9 && scale % 3 == 0;
    (is_kept && !digits.ends_with("000") && !digits.starts_with('0')).then_some(scale)
}

// === impl ParseQuantityError ===

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FormatWrong => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Numeric => "unable to parse numeric part of quantity",
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for ParseQuantityError {}

// === Parsing ===

/// Sign, number and suffix. The number may be empty, which is zero.
fn split(text: &str) -> Result<(bool, &str, &str), ParseQuantityError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_digit = |c: char| c.is_ascii_digit();
    let whole = unsigned.trim_start_matches(is_digit);
    let suffix = whole
        .strip_prefix('.')
        .map_or(whole, |fraction| fraction.trim_start_matches(is_digit));
    let number = &unsigned[..unsigned.len() - suffix.len()];
    if text.is_empty() || !is_suffix(suffix) {
        return Err(ParseQuantityError::FormatWrong);
    }
    Ok((negative, number, suffix))
}

/// Suffix letters, then an optional sign, then digits.
fn is_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|byte| byte.is_ascii_digit())
}

/// The digits without the decimal point, and how many follow it. Insignificant digits are dropped, rounding up.
fn digits(number: &str) -> (i128, i32) {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut value: i128 = 0;
    let mut decimals = 0;
    let mut dropped = 0;
    let mut rest = false;
    for (at, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let behind = at >= whole.len();
        if value < 10_i128.pow(27) {
            value = value * 10 + i128::from(digit - b'0');
            decimals += i32::from(behind);
        } else {
            rest |= digit != b'0';
            dropped += i32::from(!behind);
        }
    }
    (value + i128::from(rest), decimals - dropped)
}

/// The format of a suffix, its power of ten, and its binary factor.
fn scale(suffix: &str) -> Result<(Format, i32, i128), ParseQuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(own, _)| *own == suffix) {
        return Ok((Format::DecimalSi, *exponent, 1));
    }
    if let Some(power) = BINARY.iter().position(|own| *own == suffix) {
        return Ok((Format::BinarySi, 0, 1 << (10 * power)));
    }
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .ok_or(ParseQuantityError::Suffix)?;
    let exponent: i32 = exponent.parse().map_err(|_| ParseQuantityError::Suffix)?;
    Ok((Format::DecimalExponent, exponent, 1))
}

/// `digits * factor * 10^exponent`, rounded up, at most the largest amount.
fn scaled(digits: i128, exponent: i32, factor: i128) -> i128 {
    let exact = digits.saturating_mul(factor);
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    let value = match power {
        _ if exact == 0 => 0,
        Some(power) if exponent >= 0 => exact.saturating_mul(power),
        Some(power) => divide_up(exact, power),
        None if exponent >= 0 => MAX_NANOS,
        None => 1,
    };
    value.min(MAX_NANOS)
}

fn divide_up(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, canonical: &str) {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.to_string(), canonical, "{text}");
        let again: Quantity = canonical.parse().unwrap();
        assert_eq!(again, quantity);
        assert_eq!(again.to_string(), canonical);
    }

    #[track_caller]
    fn check_error(text: &str, why: ParseQuantityError) {
        assert_eq!(text.parse::<Quantity>().unwrap_err(), why, "{text:?}");
    }

    #[test]
    fn a_text_that_is_obviously_canonical_is_its_own_canonical_text() {
        let numbers = [
            "0",
            "1",
            "8",
            "100",
            "007",
            "999",
            "1000",
            "1023",
            "1024",
            "2048",
            "999999999999999",
        ];
        let suffixes = ["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"];
        for text in numbers
            .iter()
            .flat_map(|number| suffixes.map(|suffix| format!("{number}{suffix}")))
        {
            let canonical = [
                canonical_text(&text).unwrap(),
                canonical_text_in_list(&text).unwrap(),
            ];
            let is_same = canonical.iter().all(|canonical| *canonical == text);
            assert!(is_same || !is_obviously_canonical(&text), "{text}: {canonical:?}");
            let general: Quantity = format!("+{text}").parse().unwrap();
            let quick: Quantity = text.parse().unwrap();
            assert_eq!((quick, quick.format()), (general, general.format()), "{text}");
        }
        assert!(is_obviously_canonical("128Mi") && is_obviously_canonical("100m"));
        assert!(!is_obviously_canonical("1024Mi") && !is_obviously_canonical("1000m"));
    }

    #[test]
    fn decimal_amounts_print_without_a_point() {
        check("0.5", "500m");
        check("1", "1");
        check("1000", "1k");
        check("1500", "1500");
        check("100m", "100m");
        check("0.1", "100m");
        check("1000m", "1");
        check("1.5k", "1500");
        check("2000000", "2M");
        check("1073741824", "1073741824");
        check("+3", "3");
        check("-2500m", "-2500m");
        check("7E", "7E");
        check("5u", "5u");
        check("1.", "1");
        check(".5", "500m");
        check("0", "0");
        check("0Gi", "0");
        check("-0", "0");
    }

    #[test]
    fn binary_amounts_take_the_largest_whole_suffix() {
        check("1024Mi", "1Gi");
        check("1Ki", "1Ki");
        check("0.5Gi", "512Mi");
        check("1.5Gi", "1536Mi");
        check("128Mi", "128Mi");
        check("1023Ki", "1023Ki");
        check("0.5Ki", "512");
        check("0.0001Ki", "102400u");
        check("1.0001Ki", "1024102400u");
        check("8Ei", "9223372036854775807");
    }

    #[test]
    fn exponents_are_multiples_of_three() {
        check("1e3", "1e3");
        check("1e4", "10e3");
        check("12e2", "1200");
        check("5E-1", "500e-3");
        check("1e0", "1");
    }

    #[test]
    fn fine_amounts_are_rounded_up_and_large_ones_capped() {
        check("1e-12", "1e-9");
        check("0.0000000001", "1n");
        check("1e100", "9223372036854775807");
        check("99999999999999999999999999999999999", "9223372036854775807");
        check("0.00000000000000000000000000000000001", "1n");
    }

    #[test]
    fn an_invalid_quantity_is_rejected() {
        check_error("", ParseQuantityError::FormatWrong);
        check_error("abc", ParseQuantityError::FormatWrong);
        check_error("1 ", ParseQuantityError::FormatWrong);
        check_error("1x", ParseQuantityError::FormatWrong);
        check_error("1.2.3", ParseQuantityError::FormatWrong);
        check_error("nn", ParseQuantityError::Suffix);
        check_error("1mm", ParseQuantityError::Suffix);
        check_error("1K", ParseQuantityError::Suffix);
        check_error("1ki", ParseQuantityError::Suffix);
        check_error("1e", ParseQuantityError::Suffix);
    }

    #[test]
    fn a_quantity_without_digits_is_zero() {
        for text in ["-", ".", "Mi", "n", "-.k"] {
            check(text, "0");
        }
    }

    #[track_caller]
    fn check_text(text: &str, canonical: &str, list_item: &str) {
        assert_eq!(canonical_text(text).as_deref(), Ok(canonical), "{text}");
        assert_eq!(canonical_text_in_list(text).as_deref(), Ok(list_item), "{text}");
    }

    #[test]
    fn the_text_of_a_quantity_is_kept_if_its_number_is_canonical() {
        check_text("007", "007", "007");
        check_text("+5", "+5", "+5");
        check_text("1.500", "1.500", "1.500");
        check_text("1.5", "1500m", "1500m");
        check_text("0.100", "100m", "100m");
        check_text("1000m", "1", "1");
        check_text("5u", "5u", "1m");
        check_text("1e3", "1e3", "1e3");
        check_text("007Mi", "007Mi", "007Mi");
        check_text("1024Mi", "1Gi", "1Gi");
        check_text("1.5Gi", "1536Mi", "1536Mi");
        check_text(
            "99999999999999999999",
            "9223372036854775807",
            "9223372036854775807",
        );
        check_text("0", "0", "0");
    }

    #[test]
    fn amounts_add_subtract_and_compare_across_formats() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1Ki"), quantity("1024"));
        assert!(quantity("1Gi") > quantity("1G"));
        assert_eq!((quantity("1Gi") + quantity("1024Mi")).to_string(), "2Gi");
        assert_eq!((quantity("0") + quantity("1Ki")).to_string(), "1Ki");
        assert_eq!((quantity("1") - quantity("100m")).to_string(), "900m");
        assert_eq!((quantity("7E") + quantity("7E")).value(), i64::MAX);
        assert!((quantity("1") - quantity("2")).is_negative());
    }

    #[test]
    fn values_round_away_from_zero() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1500m").value(), 2);
        assert_eq!(quantity("-1500m").value(), -2);
        assert_eq!(quantity("1u").milli_value(), 1);
        assert_eq!(quantity("2Gi").milli_value(), 2 * 1024 * 1024 * 1024 * 1000);
        assert_eq!(quantity("1001u").round_up_to_milli().to_string(), "2m");
        assert_eq!(Quantity::from_milli(250).to_string(), "250m");
        assert_eq!(Quantity::new(4096, Format::BinarySi).to_string(), "4Ki");
    }
}
