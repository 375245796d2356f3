//! API times: RFC 3339 in, the server's canonical form out.
//!
//! Two layouts exist. A plain time has whole seconds; a fraction on input is dropped. A micro time has exactly six
//! digits of fraction and is rejected without them. Both are written in UTC with `Z`. Parse errors have the text of the
//! reference server, which names the layout and its first element that does not match.

use compact_str::CompactString;

/// How many digits of fraction a time carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Seconds,
    Micros,
}

const SECONDS_PER_DAY: i64 = 86_400;
const LENGTH_OF_SECONDS: usize = "2006-01-02T15:04:05Z".len();
const LENGTH_OF_MICROS: usize = "2006-01-02T15:04:05.000000Z".len();

/// The canonical form of a time, `None` if it already has that form, or the parse error.
pub fn normalize(text: &str, precision: Precision) -> Result<Option<CompactString>, String> {
    let parsed = parse(text, precision)?;
    if parsed.offset_seconds == 0 && text.len() == precision.length() && text.ends_with('Z') {
        return Ok(None);
    }
    let (seconds, micros) = parsed.to_unix();
    let form = from_unix(seconds, micros, precision);
    form.map(Some)
        .ok_or_else(|| format!("parsing time {}: year out of range", quoted(text)))
}

/// Parses a time into Unix seconds and the microseconds of that second.
pub fn to_unix(text: &str, precision: Precision) -> Result<(i64, u32), String> {
    parse(text, precision).map(|parsed| parsed.to_unix())
}

/// The canonical form of an instant, or `None` if its year does not have four digits.
pub fn from_unix(seconds: i64, micros: u32, precision: Precision) -> Option<CompactString> {
    let (year, month, day) = date_of(seconds.div_euclid(SECONDS_PER_DAY));
    if !(0..=9999).contains(&year) {
        return None;
    }
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    let mut form = *b"0000-00-00T00:00:00.000000Z";
    put_digits(&mut form[..4], year);
    put_digits(&mut form[5..7], month);
    put_digits(&mut form[8..10], day);
    put_digits(&mut form[11..13], of_day / 3600);
    put_digits(&mut form[14..16], of_day / 60 % 60);
    put_digits(&mut form[17..19], of_day % 60);
    put_digits(&mut form[20..26], micros.into());
    if precision == Precision::Seconds {
        form[LENGTH_OF_SECONDS - 1] = b'Z';
    }
    let text = std::str::from_utf8(&form[..precision.length()]).expect("digits and signs are ASCII");
    Some(text.into())
}

/// Writes the last digits of a number, right-aligned.
fn put_digits(out: &mut [u8], number: i64) {
    let mut rest = number;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }

    fn length(self) -> usize {
        match self {
            Precision::Seconds => LENGTH_OF_SECONDS,
            Precision::Micros => LENGTH_OF_MICROS,
        }
    }
}

#[derive(Debug, Default)]
struct DateTime {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    offset_seconds: i64,
}

/// A parse error: the rest of the text and the layout element expected there, or a plain message.
enum ParseError<'a> {
    Layout(&'a str, &'static str),
    Message(String),
}

/// The text in quotes, as Go's `time` package prints it: bytes outside of printable ASCII are escaped.
fn quoted(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..0x80 => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn parse(text: &str, precision: Precision) -> Result<DateTime, String> {
    scan(text, precision).map_err(|error| match error {
        ParseError::Layout(rest, element) => {
            format!(
                "parsing time {} as {:?}: cannot parse {} as {element:?}",
                quoted(text),
                precision.layout(),
                quoted(rest)
            )
        }
        ParseError::Message(message) => format!("parsing time {}: {message}", quoted(text)),
    })
}

fn scan(text: &str, precision: Precision) -> Result<DateTime, ParseError<'_>> {
    let mut rest = text;
    let mut parsed = DateTime {
        year: digits(&mut rest, 4, "2006")?,
        ..DateTime::default()
    };
    literal(&mut rest, "-")?;
    parsed.month = digits(&mut rest, 2, "01")?;
    ranged(parsed.month, 1, 12, "month")?;
    literal(&mut rest, "-")?;
    parsed.day = digits(&mut rest, 2, "02")?;
    literal(&mut rest, "T")?;
    parsed.hour = digits(&mut rest, 2, "15")?;
    ranged(parsed.hour, 0, 23, "hour")?;
    literal(&mut rest, ":")?;
    parsed.minute = digits(&mut rest, 2, "04")?;
    ranged(parsed.minute, 0, 59, "minute")?;
    literal(&mut rest, ":")?;
    parsed.second = digits(&mut rest, 2, "05")?;
    ranged(parsed.second, 0, 59, "second")?;
    parsed.micros = fraction(&mut rest, precision)?;
    parsed.offset_seconds = zone(&mut rest)?;
    if !rest.is_empty() {
        return Err(ParseError::Message(format!("extra text: {rest:?}")));
    }
    ranged(parsed.day, 1, days_in(parsed.year, parsed.month), "day")?;
    Ok(parsed)
}

fn digits<'a>(rest: &mut &'a str, count: usize, element: &'static str) -> Result<i64, ParseError<'a>> {
    let taken = rest
        .get(..count)
        .filter(|taken| taken.bytes().all(|byte| byte.is_ascii_digit()));
    let taken = taken.ok_or(ParseError::Layout(rest, element))?;
    *rest = &rest[count..];
    Ok(taken
        .bytes()
        .fold(0, |number, byte| number * 10 + i64::from(byte - b'0')))
}

fn literal<'a>(rest: &mut &'a str, element: &'static str) -> Result<(), ParseError<'a>> {
    *rest = rest
        .strip_prefix(element)
        .ok_or(ParseError::Layout(rest, element))?;
    Ok(())
}

fn ranged<'a>(number: i64, min: i64, max: i64, name: &str) -> Result<(), ParseError<'a>> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    Err(ParseError::Message(format!("{name} out of range")))
}

fn fraction<'a>(rest: &mut &'a str, precision: Precision) -> Result<i64, ParseError<'a>> {
    let after = rest.strip_prefix(['.', ',']);
    let count = after.map_or(0, |after| after.bytes().take_while(u8::is_ascii_digit).count());
    match precision {
        Precision::Micros => {
            let mut tail = after
                .filter(|_| count >= 6)
                .ok_or(ParseError::Layout(rest, ".000000"))?;
            let micros = digits(&mut tail, 6, ".000000")?;
            *rest = tail;
            Ok(micros)
        }
        Precision::Seconds => {
            if count > 0 {
                *rest = &rest[1 + count..];
            }
            Ok(0)
        }
    }
}

fn zone<'a>(rest: &mut &'a str) -> Result<i64, ParseError<'a>> {
    if let Some(after) = rest.strip_prefix('Z') {
        *rest = after;
        return Ok(0);
    }
    let error = || ParseError::Layout(rest, "Z07:00");
    let sign = match rest.bytes().next() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(error()),
    };
    let (hours, minutes) = rest
        .get(1..6)
        .and_then(|text| text.split_once(':'))
        .ok_or_else(error)?;
    let (mut hours, mut minutes) = (hours, minutes);
    let hours = digits(&mut hours, 2, "Z07:00").map_err(|_| error())?;
    let minutes = digits(&mut minutes, 2, "Z07:00").map_err(|_| error())?;
    if hours > 24 || minutes > 60 {
        return Err(ParseError::Message("time zone offset out of range".into()));
    }
    *rest = &rest[6..];
    Ok(sign * (hours * 3600 + minutes * 60))
}

impl DateTime {
    fn to_unix(&self) -> (i64, u32) {
        let days = days_since_epoch(self.year, self.month, self.day);
        let of_day = self.hour * 3600 + self.minute * 60 + self.second - self.offset_seconds;
        (days * SECONDS_PER_DAY + of_day, self.micros as u32)
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, in the proleptic Gregorian calendar with years that begin in March.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a number of days from 1970-01-01: the inverse of [`days_since_epoch`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, precision: Precision, expected: &str) {
        let result =
            normalize(text, precision).map(|form| form.map_or(text.to_string(), |form| form.to_string()));
        assert_eq!(result.unwrap_or_else(|error| error), expected);
    }

    #[test]
    fn a_canonical_time_stays_as_it_is() {
        assert_eq!(normalize("2026-01-02T03:04:05Z", Precision::Seconds), Ok(None));
        assert_eq!(
            normalize("2026-01-02T03:04:05.000006Z", Precision::Micros),
            Ok(None)
        );
    }

    #[test]
    fn an_offset_becomes_utc_and_a_fraction_is_dropped() {
        check(
            "2026-01-02T03:04:05.999+02:00",
            Precision::Seconds,
            "2026-01-02T01:04:05Z",
        );
        check(
            "2026-01-01T00:30:00+01:00",
            Precision::Seconds,
            "2025-12-31T23:30:00Z",
        );
        check(
            "2024-02-28T23:30:00-01:00",
            Precision::Seconds,
            "2024-02-29T00:30:00Z",
        );
        check(
            "1999-12-31T23:59:59-00:01",
            Precision::Seconds,
            "2000-01-01T00:00:59Z",
        );
        check(
            "2026-01-01T00:30:00.123456+01:00",
            Precision::Micros,
            "2025-12-31T23:30:00.123456Z",
        );
    }

    #[test]
    fn a_parse_error_names_the_layout() {
        check(
            "ü\"",
            Precision::Seconds,
            r#"parsing time "\xc3\xbc\"" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xbc\"" as "2006""#,
        );
        check(
            "yesterday",
            Precision::Seconds,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        );
        check(
            "2026-01-01T00:00:00Z",
            Precision::Micros,
            r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        );
        check(
            "2026-02-30T00:00:00Z",
            Precision::Seconds,
            r#"parsing time "2026-02-30T00:00:00Z": day out of range"#,
        );
        check(
            "2026-02-20T00:00:00Zx",
            Precision::Seconds,
            r#"parsing time "2026-02-20T00:00:00Zx": extra text: "x""#,
        );
    }

    #[test]
    fn an_instant_and_its_text_are_the_same() {
        for (seconds, micros, text) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (-1, 999_999, "1969-12-31T23:59:59.999999Z"),
            (-62_135_596_800, 0, "0001-01-01T00:00:00.000000Z"),
            (253_402_300_799, 1, "9999-12-31T23:59:59.000001Z"),
        ] {
            assert_eq!(
                from_unix(seconds, micros, Precision::Micros).as_deref(),
                Some(text)
            );
            assert_eq!(to_unix(text, Precision::Micros), Ok((seconds, micros)));
        }
        assert_eq!(from_unix(253_402_300_800, 0, Precision::Seconds), None);
        assert_eq!(from_unix(i64::MIN, 0, Precision::Seconds), None);
        assert_eq!(from_unix(i64::MAX, 0, Precision::Seconds), None);
    }

    #[test]
    fn a_time_beyond_four_digits_of_year_is_rejected() {
        check(
            "9999-12-31T23:59:59-01:00",
            Precision::Seconds,
            r#"parsing time "9999-12-31T23:59:59-01:00": year out of range"#,
        );
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for days in days_since_epoch(1900, 1, 1)..days_since_epoch(2300, 1, 1) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_since_epoch(year, month, day), days);
        }
    }
}
