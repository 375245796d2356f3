//! Decimal arithmetic, so that sums of decimal fractions are exact, as `github.com/shopspring/decimal` computes them.

/// An operation on two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A number with a power of ten.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    digits: i128,
    exponent: i32,
}

/// Decimal digits of a quotient.
const DIVISION_DIGITS: i32 = 16;

/// Applies the operation to the first number and each of the others. Where a decimal would have more than 38 digits, the
/// numbers are computed as floating-point numbers.
pub(super) fn compute(first: f64, others: &[f64], operation: Operation) -> Result<f64, String> {
    let mut result = first;
    let mut exact = decimal(first)?;
    for other in others {
        let operand = decimal(*other)?;
        if operation == Operation::Divide && *other == 0.0 {
            return Err("decimal division by 0".to_owned());
        }
        result = match operation {
            Operation::Add => result + other,
            Operation::Subtract => result - other,
            Operation::Multiply => result * other,
            Operation::Divide => result / other,
        };
        exact = exact.zip(operand).and_then(|(a, b)| apply(a, b, operation));
        if let Some(value) = exact {
            result = format!("{}e{}", value.digits, value.exponent)
                .parse()
                .unwrap_or(result);
        }
    }
    Ok(result)
}

/// The shortest decimal of a number.
fn decimal(value: f64) -> Result<Option<Decimal>, String> {
    if !value.is_finite() {
        let name = crate::format::format_float(value, 'g', None);
        return Err(format!("Cannot create a Decimal from {name}"));
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits = mantissa.replace('.', "").parse().ok();
    let exponent = exponent.parse::<i32>().ok().zip(i32::try_from(fraction).ok());
    Ok(digits
        .zip(exponent)
        .map(|(digits, (exponent, fraction))| Decimal {
            digits,
            exponent: exponent - fraction,
        }))
}

fn apply(a: Decimal, b: Decimal, operation: Operation) -> Option<Decimal> {
    match operation {
        Operation::Add => sum(a, b),
        Operation::Subtract => sum(
            a,
            Decimal {
                digits: -b.digits,
                ..b
            },
        ),
        Operation::Multiply => Some(Decimal {
            digits: a.digits.checked_mul(b.digits)?,
            exponent: a.exponent.checked_add(b.exponent)?,
        }),
        Operation::Divide => quotient(a, b),
    }
}

fn sum(a: Decimal, b: Decimal) -> Option<Decimal> {
    let exponent = a.exponent.min(b.exponent);
    let digits = scaled(a, exponent)?.checked_add(scaled(b, exponent)?)?;
    Some(Decimal { digits, exponent })
}

fn scaled(value: Decimal, exponent: i32) -> Option<i128> {
    let power = u32::try_from(value.exponent.checked_sub(exponent)?).ok()?;
    value.digits.checked_mul(10_i128.checked_pow(power)?)
}

fn quotient(a: Decimal, b: Decimal) -> Option<Decimal> {
    let power = DIVISION_DIGITS.checked_add(a.exponent)?.checked_sub(b.exponent)?;
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    let (dividend, divisor) = match power >= 0 {
        true => (a.digits.checked_mul(factor)?, b.digits),
        false => (a.digits, b.digits.checked_mul(factor)?),
    };
    let (mut digits, remainder) = (dividend / divisor, dividend % divisor);
    if remainder.checked_mul(2)?.abs() >= divisor.abs() {
        digits += dividend.signum() * divisor.signum();
    }
    Some(Decimal {
        digits,
        exponent: -DIVISION_DIGITS,
    })
}
