//! Floating-point numbers as text, as Go's `strconv.FormatFloat` writes them.

/// No number has more decimal digits than this; further ones are zeros. Rust's own formatting is limited to 65535 digits.
const MAX_DIGITS: usize = 1100;

/// Formats a number by a verb of `e`, `E`, `f`, `g`, `G`, `b`, `x`, `X`. Without a precision, the shortest text that
/// reads back as the same number.
pub(crate) fn format_float(value: f64, verb: char, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let precision = match verb {
        'g' | 'G' => precision.map(|precision| precision.min(MAX_DIGITS)),
        _ => precision,
    };
    match verb {
        'e' | 'E' => exponent_form(value, verb, precision),
        'f' => match precision {
            Some(precision) => {
                let digits = precision.min(MAX_DIGITS);
                format!("{value:.digits$}") + &"0".repeat(precision - digits)
            }
            None => format!("{value}"),
        },
        'b' => mantissa_form(value),
        'x' | 'X' => hex_form(value, verb, precision),
        _ => general_form(value, verb, precision),
    }
}

/// `1.5e+10`: the exponent has a sign and at least two digits.
fn exponent_form(value: f64, verb: char, precision: Option<usize>) -> String {
    let text = match precision {
        Some(precision) => format!("{value:.*e}", precision.min(MAX_DIGITS)),
        None => format!("{value:e}"),
    };
    let zeros = "0".repeat(precision.unwrap_or(0).saturating_sub(MAX_DIGITS));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{zeros}{verb}{sign}{:02}", exponent.unsigned_abs())
}

/// The exponent form if the exponent is below -4 or at least the precision, else the decimal form.
fn general_form(value: f64, verb: char, precision: Option<usize>) -> String {
    let wanted = precision.map(|precision| precision.max(1));
    let text = match wanted {
        Some(precision) => format!("{value:.*e}", precision - 1),
        None => format!("{value:e}"),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let trailing = mantissa.len() - mantissa.trim_end_matches(['0', '.']).len();
    let zeros = mantissa[mantissa.len() - trailing..]
        .bytes()
        .filter(|byte| *byte == b'0')
        .count();
    let digits = if value == 0.0 { 1 } else { digits - zeros };
    let point = exponent + 1;
    let mut threshold = wanted.unwrap_or(6) as i64;
    if wanted.is_some() && threshold > digits as i64 && digits as i64 >= point {
        threshold = digits as i64;
    }
    if value != 0.0 && (exponent < -4 || exponent >= threshold) {
        let e = if verb == 'G' { 'E' } else { 'e' };
        return exponent_form(value, e, Some(digits - 1));
    }
    let decimals = usize::try_from(digits as i64 - point).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// `4503599627370496p-52`: the mantissa as an integer, and the power of two.
fn mantissa_form(value: f64) -> String {
    let (negative, mantissa, exponent) = decompose(value);
    let sign = if negative { "-" } else { "" };
    format!("{sign}{mantissa}p{exponent:+}")
}

/// `0x1.8p+01`: the mantissa in base 16.
fn hex_form(value: f64, verb: char, precision: Option<usize>) -> String {
    let (negative, mut mantissa, exponent) = decompose(value);
    let mut power = exponent + 52;
    if mantissa == 0 {
        power = 0;
    }
    while mantissa != 0 && mantissa < 1 << 52 {
        mantissa <<= 1;
        power -= 1;
    }
    if let Some(precision) = precision.filter(|precision| *precision < 13) {
        let shift = 52 - 4 * precision;
        let half = 1_u64 << (shift - 1);
        let rest = mantissa & ((1 << shift) - 1);
        mantissa >>= shift;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= shift;
        if mantissa >= 1 << 53 {
            mantissa >>= 1;
            power += 1;
        }
    }
    let lead = mantissa >> 52;
    let hex = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let fraction = match precision {
        Some(precision) if precision < hex.len() => hex[..precision].to_owned(),
        Some(precision) => format!("{hex}{}", "0".repeat(precision - hex.len())),
        None => hex.trim_end_matches('0').to_owned(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if negative { "-" } else { "" };
    let power_sign = if power < 0 { '-' } else { '+' };
    let text = format!(
        "{sign}0x{lead}{point}{fraction}p{power_sign}{:02}",
        power.unsigned_abs()
    );
    if verb == 'X' { text.to_uppercase() } else { text }
}

/// The sign, the mantissa and the exponent of two.
fn decompose(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or_default();
    match exponent {
        0 => (bits >> 63 == 1, mantissa, -1074),
        _ => (bits >> 63 == 1, mantissa | 1 << 52, exponent - 1075),
    }
}
