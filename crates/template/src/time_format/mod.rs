//! Times as Go's `time` package formats and parses them, by layouts of the reference time `Mon Jan 2 15:04:05 MST 2006`.
//! `layout.rs` splits a layout into elements, `parse.rs` reads a time by them.

mod layout;
mod parse;

use std::fmt::Write;

use jiff::Zoned;

use layout::{Element, next_element};
pub(crate) use parse::parse;

pub(crate) const RFC3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The text of a time, as Go prints it.
pub(crate) fn to_string(time: &Zoned) -> String {
    format(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

/// The text of a time by a layout.
pub(crate) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::new();
    let mut rest = layout;
    while let Some((prefix, element, after)) = next_element(rest) {
        out.push_str(prefix);
        // Writing to a string cannot fail.
        let _ = write_element(&mut out, time, element);
        rest = after;
    }
    out + rest
}

fn write_element(out: &mut String, time: &Zoned, element: Element) -> std::fmt::Result {
    let month = MONTHS[usize::try_from(time.month() - 1).unwrap_or(0)];
    let day = DAYS[usize::try_from(time.weekday().to_monday_zero_offset()).unwrap_or(0)];
    let hour = time.hour();
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    match element {
        Element::LongMonth => out.write_str(month),
        Element::Month => out.write_str(&month[..3]),
        Element::NumMonth => write!(out, "{}", time.month()),
        Element::ZeroMonth => write!(out, "{:02}", time.month()),
        Element::LongWeekday => out.write_str(day),
        Element::Weekday => out.write_str(&day[..3]),
        Element::Day => write!(out, "{}", time.day()),
        Element::UnderDay => write!(out, "{:2}", time.day()),
        Element::ZeroDay => write!(out, "{:02}", time.day()),
        Element::UnderYearDay => write!(out, "{:3}", time.day_of_year()),
        Element::ZeroYearDay => write!(out, "{:03}", time.day_of_year()),
        Element::Hour => write!(out, "{hour:02}"),
        Element::Hour12 => write!(out, "{hour12}"),
        Element::ZeroHour12 => write!(out, "{hour12:02}"),
        Element::Minute => write!(out, "{}", time.minute()),
        Element::ZeroMinute => write!(out, "{:02}", time.minute()),
        Element::Second => write!(out, "{}", time.second()),
        Element::ZeroSecond => write!(out, "{:02}", time.second()),
        Element::LongYear => write!(out, "{:04}", time.year()),
        Element::Year => write!(out, "{:02}", time.year().rem_euclid(100)),
        Element::Pm => out.write_str(if hour >= 12 { "PM" } else { "AM" }),
        Element::LowerPm => out.write_str(if hour >= 12 { "pm" } else { "am" }),
        Element::ZoneName => out.write_str(&zone_name(time)),
        Element::Offset { .. } => write_offset(out, time, element),
        Element::Fraction { digits, trims, comma } => {
            let nanos = format!("{:09}", time.subsec_nanosecond());
            let text = &nanos[..digits.min(9)];
            let text = if trims { text.trim_end_matches('0') } else { text };
            match text {
                "" => Ok(()),
                text => write!(out, "{}{text}", if comma { ',' } else { '.' }),
            }
        }
    }
}

fn write_offset(out: &mut String, time: &Zoned, element: Element) -> std::fmt::Result {
    let Element::Offset {
        z,
        colon,
        minutes,
        seconds,
    } = element
    else {
        return Ok(());
    };
    let offset = time.offset().seconds();
    if z && offset == 0 {
        return out.write_str("Z");
    }
    let magnitude = offset.unsigned_abs();
    let separator = if colon { ":" } else { "" };
    write!(
        out,
        "{}{:02}",
        if offset < 0 { '-' } else { '+' },
        magnitude / 3600
    )?;
    if minutes {
        write!(out, "{separator}{:02}", magnitude / 60 % 60)?;
    }
    if seconds {
        write!(out, "{separator}{:02}", magnitude % 60)?;
    }
    Ok(())
}

/// The abbreviation of the time zone; an offset where there is none.
fn zone_name(time: &Zoned) -> String {
    let name = time.strftime("%Z").to_string();
    match name.starts_with(['+', '-']) {
        true => {
            let offset = time.offset().seconds();
            let (sign, magnitude) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
            let minutes = magnitude / 60 % 60;
            match minutes {
                0 if time.time_zone().iana_name().is_some() => format!("{sign}{:02}", magnitude / 3600),
                _ => format!("{sign}{:02}{minutes:02}", magnitude / 3600),
            }
        }
        false => name,
    }
}
