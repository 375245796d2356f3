//! Reading of times by a layout.

use jiff::Zoned;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};

use super::layout::{Element, next_element};
use super::{DAYS, MONTHS};
use crate::quote::quote;

/// The numbers that were read.
#[derive(Debug)]
struct Fields {
    year: i16,
    month: i8,
    day: i8,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    is_pm: Option<bool>,
    offset: Option<Offset>,
}

/// The time of a text by a layout. Without a zone in the layout, it is in the given one.
pub(crate) fn parse(layout: &str, value: &str, zone: &TimeZone) -> Result<Zoned, String> {
    let mut fields = Fields {
        year: 0,
        month: 1,
        day: 1,
        year_day: None,
        hour: 0,
        minute: 0,
        second: 0,
        nanosecond: 0,
        is_pm: None,
        offset: None,
    };
    let problem = |at: &str, element: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(value),
            quote(layout),
            quote(at),
            quote(element)
        )
    };
    let mut rest_layout = layout;
    let mut rest = value;
    while let Some((prefix, element, after)) = next_element(rest_layout) {
        let text = &rest_layout[prefix.len()..rest_layout.len() - after.len()];
        rest = rest.strip_prefix(prefix).ok_or_else(|| problem(rest, prefix))?;
        rest = match fields.read(element, rest) {
            Ok(rest) => rest,
            Err(Problem::Syntax) => return Err(problem(rest, text)),
            Err(Problem::Range(name)) => {
                return Err(format!("parsing time {}: {name} out of range", quote(value)));
            }
        };
        if matches!(element, Element::Second | Element::ZeroSecond) {
            rest = fields.read_optional_fraction(rest, after);
        }
        rest_layout = after;
    }
    rest = rest
        .strip_prefix(rest_layout)
        .ok_or_else(|| problem(rest, rest_layout))?;
    if !rest.is_empty() {
        return Err(format!(
            "parsing time {}: extra text: {}",
            quote(value),
            quote(rest)
        ));
    }
    let time = fields
        .date_time()
        .ok_or_else(|| format!("parsing time {}: day out of range", quote(value)))?;
    let zone = fields.offset.map_or_else(|| zone.clone(), zone_of);
    time.to_zoned(zone).map_err(|error| error.to_string())
}

fn zone_of(offset: Offset) -> TimeZone {
    if offset == Offset::UTC {
        TimeZone::UTC
    } else {
        TimeZone::fixed(offset)
    }
}

/// Why an element cannot be read.
enum Problem {
    Syntax,
    /// The number of the named field is out of range.
    Range(&'static str),
}

type Rest<'v> = Result<&'v str, Problem>;

impl Fields {
    fn read<'v>(&mut self, element: Element, value: &'v str) -> Rest<'v> {
        let (number, rest) = match element {
            Element::LongMonth | Element::Month => {
                let (i, rest) = find_name(&MONTHS, value, element == Element::Month)?;
                (i + 1, rest)
            }
            Element::LongWeekday | Element::Weekday => find_name(&DAYS, value, element == Element::Weekday)?,
            Element::LongYear => digits(value, 4, 4)?,
            Element::ZeroYearDay | Element::UnderYearDay => digits(value.trim_start(), 3, 3)?,
            Element::UnderDay => digits(value.strip_prefix(' ').unwrap_or(value), 1, 2)?,
            Element::NumMonth | Element::Day | Element::Hour12 | Element::Minute | Element::Second => {
                digits(value, 1, 2)?
            }
            Element::Pm | Element::LowerPm => return self.read_half(element, value),
            Element::ZoneName => return self.read_zone_name(value),
            Element::Offset { .. } => return self.read_offset(element, value),
            Element::Fraction { trims: true, .. } => return Ok(self.read_optional_fraction(value, "")),
            Element::Fraction { digits: count, .. } => {
                let text = value.strip_prefix(['.', ',']).ok_or(Problem::Syntax)?;
                let (_, rest) = digits(text, count, count)?;
                self.set_fraction(&text[..count]);
                return Ok(rest);
            }
            _ => digits(value, 2, 2)?,
        };
        self.set(element, number)?;
        Ok(rest)
    }

    fn set(&mut self, element: Element, number: i16) -> Result<(), Problem> {
        let within = |low, high, name| match (low..=high).contains(&number) {
            true => i8::try_from(number).map_err(|_| Problem::Range(name)),
            false => Err(Problem::Range(name)),
        };
        match element {
            Element::LongYear => self.year = number,
            Element::Year => {
                self.year = if number >= 69 {
                    1900 + number
                } else {
                    2000 + number
                }
            }
            Element::LongMonth | Element::Month | Element::NumMonth | Element::ZeroMonth => {
                self.month = within(1, 12, "month")?;
            }
            Element::Day | Element::UnderDay | Element::ZeroDay => self.day = within(1, 31, "day")?,
            Element::ZeroYearDay | Element::UnderYearDay => self.year_day = Some(number),
            Element::Hour => self.hour = within(0, 23, "hour")?,
            Element::Hour12 | Element::ZeroHour12 => self.hour = within(0, 12, "hour")?,
            Element::Minute | Element::ZeroMinute => self.minute = within(0, 59, "minute")?,
            Element::Second | Element::ZeroSecond => self.second = within(0, 59, "second")?,
            _ => {}
        }
        Ok(())
    }

    fn read_half<'v>(&mut self, element: Element, value: &'v str) -> Rest<'v> {
        let (am, pm) = if element == Element::Pm {
            ("AM", "PM")
        } else {
            ("am", "pm")
        };
        if let Some(rest) = value.strip_prefix(pm) {
            self.is_pm = Some(true);
            return Ok(rest);
        }
        let rest = value.strip_prefix(am).ok_or(Problem::Syntax)?;
        self.is_pm = Some(false);
        Ok(rest)
    }

    /// An abbreviation. Its offset is unknown, and taken as that of UTC.
    fn read_zone_name<'v>(&mut self, value: &'v str) -> Rest<'v> {
        let length = value.bytes().take_while(u8::is_ascii_uppercase).count();
        if !(3..=5).contains(&length) {
            return Err(Problem::Syntax);
        }
        self.offset.get_or_insert(Offset::UTC);
        Ok(&value[length..])
    }

    fn read_offset<'v>(&mut self, element: Element, value: &'v str) -> Rest<'v> {
        let Element::Offset {
            z,
            colon,
            minutes,
            seconds,
        } = element
        else {
            return Err(Problem::Syntax);
        };
        if let Some(rest) = value.strip_prefix('Z').filter(|_| z) {
            self.offset = Some(Offset::UTC);
            return Ok(rest);
        }
        let rest = value.strip_prefix(['+', '-']).ok_or(Problem::Syntax)?;
        let (hours, mut rest) = digits(rest, 2, 2)?;
        let mut total = i32::from(hours) * 3600;
        for (is_read, factor) in [(minutes, 60), (seconds, 1)] {
            if is_read {
                rest = if colon {
                    rest.strip_prefix(':').ok_or(Problem::Syntax)?
                } else {
                    rest
                };
                let (number, after) = digits(rest, 2, 2)?;
                total += i32::from(number) * factor;
                rest = after;
            }
        }
        let total = if value.starts_with('-') { -total } else { total };
        self.offset = Some(Offset::from_seconds(total).map_err(|_| Problem::Range("time zone offset"))?);
        Ok(rest)
    }

    /// A fraction of a second, which a text may have although the layout does not.
    fn read_optional_fraction<'v>(&mut self, value: &'v str, layout: &str) -> &'v str {
        if layout.starts_with(['.', ',']) {
            return value;
        }
        let Some(text) = value.strip_prefix(['.', ',']) else {
            return value;
        };
        let count = text.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return value;
        }
        self.set_fraction(&text[..count]);
        &text[count..]
    }

    fn set_fraction(&mut self, digits: &str) {
        let padded = format!("{digits:0<9}");
        self.nanosecond = padded[..9].parse().unwrap_or(0);
    }

    fn date_time(&self) -> Option<DateTime> {
        let hour = match self.is_pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let date = match self.year_day {
            Some(day) => Date::new(self.year, 1, 1)
                .ok()?
                .with()
                .day_of_year(day)
                .build()
                .ok()?,
            None => Date::new(self.year, self.month, self.day).ok()?,
        };
        let time = Time::new(hour, self.minute, self.second, self.nanosecond).ok()?;
        Some(DateTime::from_parts(date, time))
    }
}

/// The position of a name at the start of the text, in any case.
fn find_name<'v>(names: &[&str], value: &'v str, is_short: bool) -> Result<(i16, &'v str), Problem> {
    for (i, name) in names.iter().enumerate() {
        let name = if is_short { &name[..3] } else { name };
        let start = value.get(..name.len());
        if start.is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            return Ok((i16::try_from(i).unwrap_or(0), &value[name.len()..]));
        }
    }
    Err(Problem::Syntax)
}

/// A number of at least and at most so many digits.
fn digits(value: &str, least: usize, most: usize) -> Result<(i16, &str), Problem> {
    let count = value.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return Err(Problem::Syntax);
    }
    let number = value[..count].parse().map_err(|_| Problem::Syntax)?;
    Ok((number, &value[count..]))
}
