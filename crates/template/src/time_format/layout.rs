//! Layouts: the elements of the reference time.

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    Pm,
    LowerPm,
    ZoneName,
    /// `-07:00` and others; with `z`, UTC is `Z`.
    Offset {
        z: bool,
        colon: bool,
        minutes: bool,
        seconds: bool,
    },
    /// `.000` or `.999`, of which the latter trims zeros.
    Fraction {
        digits: usize,
        trims: bool,
        comma: bool,
    },
}

const fn offset(z: bool, colon: bool, minutes: bool, seconds: bool) -> Element {
    Element::Offset {
        z,
        colon,
        minutes,
        seconds,
    }
}

/// The texts of elements, those that begin with another one first.
const ELEMENTS: &[(&str, Element)] = &[
    ("January", Element::LongMonth),
    ("Jan", Element::Month),
    ("Monday", Element::LongWeekday),
    ("Mon", Element::Weekday),
    ("MST", Element::ZoneName),
    ("002", Element::ZeroYearDay),
    ("01", Element::ZeroMonth),
    ("02", Element::ZeroDay),
    ("03", Element::ZeroHour12),
    ("04", Element::ZeroMinute),
    ("05", Element::ZeroSecond),
    ("06", Element::Year),
    ("15", Element::Hour),
    ("1", Element::NumMonth),
    ("2006", Element::LongYear),
    ("2", Element::Day),
    ("__2", Element::UnderYearDay),
    ("_2", Element::UnderDay),
    ("3", Element::Hour12),
    ("4", Element::Minute),
    ("5", Element::Second),
    ("PM", Element::Pm),
    ("pm", Element::LowerPm),
    ("-070000", offset(false, false, true, true)),
    ("-07:00:00", offset(false, true, true, true)),
    ("-0700", offset(false, false, true, false)),
    ("-07:00", offset(false, true, true, false)),
    ("-07", offset(false, false, false, false)),
    ("Z070000", offset(true, false, true, true)),
    ("Z07:00:00", offset(true, true, true, true)),
    ("Z0700", offset(true, false, true, false)),
    ("Z07:00", offset(true, true, true, false)),
    ("Z07", offset(true, false, false, false)),
];

/// The text before the first element of a layout, the element, and the text after it.
pub(super) fn next_element(layout: &str) -> Option<(&str, Element, &str)> {
    layout.char_indices().find_map(|(i, _)| {
        let rest = &layout[i..];
        let (element, length) = element_at(rest)?;
        Some((&layout[..i], element, &rest[length..]))
    })
}

fn element_at(rest: &str) -> Option<(Element, usize)> {
    if let Some(found) = fraction_at(rest) {
        return Some(found);
    }
    // `_2006` is a literal underscore and a year.
    if rest.starts_with("_2006") {
        return None;
    }
    let (text, element) = ELEMENTS.iter().find(|(text, _)| rest.starts_with(text))?;
    let followed_by_letter = rest[text.len()..].starts_with(|c: char| c.is_ascii_lowercase());
    match matches!(element, Element::Month | Element::Weekday) && followed_by_letter {
        true => None,
        false => Some((*element, text.len())),
    }
}

/// A comma or period with zeros or nines that no digit follows.
fn fraction_at(rest: &str) -> Option<(Element, usize)> {
    let comma = rest.starts_with(',');
    let digits = rest.strip_prefix(['.', ','])?;
    let first = digits.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let count = digits.len() - digits.trim_start_matches(first).len();
    if digits[count..].starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let element = Element::Fraction {
        digits: count,
        trims: first == '9',
        comma,
    };
    Some((element, count + 1))
}
