//! Format strings: flags, argument indexes, width and precision of each directive.

use super::padding::Flags;
use super::printer::Printer;
use crate::value::Value;

/// The largest width, precision or argument index.
const MAX_NUMBER: i64 = 1_000_000;

/// Prints the values by the format string.
pub(super) fn print_all(printer: &mut Printer<'_>, format: &str, values: &[&Value]) {
    let mut reader = Reader {
        format,
        pos: 0,
        values,
        next: 0,
        is_reordered: false,
        has_good_index: true,
    };
    while reader.pos < format.len() && !printer.has_failed() {
        let rest = &format[reader.pos..];
        let literal = rest.find('%').unwrap_or(rest.len());
        printer.write(&rest[..literal]);
        reader.pos += literal;
        if reader.pos < format.len() {
            reader.pos += 1;
            reader.directive(printer);
        }
    }
    if !reader.is_reordered && reader.next < values.len() {
        print_extra(printer, &values[reader.next..]);
    }
}

fn print_extra(printer: &mut Printer<'_>, values: &[&Value]) {
    printer.flags = Flags::default();
    printer.write("%!(EXTRA ");
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            printer.write(", ");
        }
        match value {
            Value::Nil => printer.write("<nil>"),
            _ => printer.typed(value),
        }
    }
    printer.write(")");
}

/// The position in the format string and in the values.
struct Reader<'a> {
    format: &'a str,
    pos: usize,
    values: &'a [&'a Value],
    next: usize,
    is_reordered: bool,
    has_good_index: bool,
}

impl Reader<'_> {
    fn byte(&self) -> Option<u8> {
        self.format.as_bytes().get(self.pos).copied()
    }

    /// Prints one directive; its `%` is consumed.
    fn directive(&mut self, printer: &mut Printer<'_>) {
        self.has_good_index = true;
        printer.flags = Flags::default();
        self.flags(&mut printer.flags);
        let simple = self
            .byte()
            .filter(|c| c.is_ascii_lowercase() && self.next < self.values.len());
        if let Some(verb) = simple {
            self.pos += 1;
            return self.print_verb(printer, char::from(verb));
        }
        let mut after_index = self.index();
        after_index = self.width(printer, after_index);
        after_index = self.precision(printer, after_index);
        if !after_index {
            self.index();
        }
        let Some(verb) = self.format[self.pos..].chars().next() else {
            return printer.write("%!(NOVERB)");
        };
        self.pos += verb.len_utf8();
        if verb == '%' {
            printer.write("%");
        } else if !self.has_good_index {
            printer.write(&format!("%!{verb}(BADINDEX)"));
        } else if self.next >= self.values.len() {
            printer.write(&format!("%!{verb}(MISSING)"));
        } else {
            self.print_verb(printer, verb);
        }
    }

    fn print_verb(&mut self, printer: &mut Printer<'_>, verb: char) {
        if matches!(verb, 'v' | 'w') {
            printer.flags.sharp_v = std::mem::take(&mut printer.flags.sharp);
            printer.flags.plus_v = std::mem::take(&mut printer.flags.plus);
        }
        printer.print_arg(self.values[self.next], verb);
        self.next += 1;
    }

    fn flags(&mut self, flags: &mut Flags) {
        loop {
            match self.byte() {
                Some(b'#') => flags.sharp = true,
                Some(b'0') => flags.zero = true,
                Some(b'+') => flags.plus = true,
                Some(b'-') => flags.minus = true,
                Some(b' ') => flags.space = true,
                _ => return,
            }
            self.pos += 1;
        }
    }

    fn width(&mut self, printer: &mut Printer<'_>, after_index: bool) -> bool {
        if self.byte() == Some(b'*') {
            self.pos += 1;
            let width = self.int_value();
            if width.is_none() {
                printer.write("%!(BADWIDTH)");
            }
            if width.is_some_and(|width| width < 0) {
                printer.flags.minus = true;
                printer.flags.zero = false;
            }
            printer.flags.width = width.map(|width| usize::try_from(width.unsigned_abs()).unwrap_or(0));
            return false;
        }
        printer.flags.width = self.number(self.format.len());
        if after_index && printer.flags.width.is_some() {
            self.has_good_index = false;
        }
        after_index
    }

    fn precision(&mut self, printer: &mut Printer<'_>, after_index: bool) -> bool {
        if self.pos + 1 >= self.format.len() || self.byte() != Some(b'.') {
            return after_index;
        }
        self.pos += 1;
        if after_index {
            self.has_good_index = false;
        }
        let after_index = self.index();
        if self.byte() == Some(b'*') {
            self.pos += 1;
            let precision = self.int_value().and_then(|value| usize::try_from(value).ok());
            if precision.is_none() {
                printer.write("%!(BADPREC)");
            }
            printer.flags.precision = precision;
            return false;
        }
        printer.flags.precision = Some(self.number(self.format.len()).unwrap_or(0));
        after_index
    }

    /// The value of a `*`, which must be an integer.
    fn int_value(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let number = i64::try_from(value.as_integer()?).ok()?;
        (number.abs() <= MAX_NUMBER).then_some(number)
    }

    /// A decimal number that ends before the given position. One that is too large ends the format string.
    fn number(&mut self, end: usize) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.byte().filter(|byte| self.pos < end && byte.is_ascii_digit()) {
            let value: i64 = number.unwrap_or(0);
            if value > MAX_NUMBER {
                self.pos = end;
                return None;
            }
            number = Some(value * 10 + i64::from(digit - b'0'));
            self.pos += 1;
        }
        number.and_then(|number| usize::try_from(number).ok())
    }

    /// Reads an argument index such as `[2]`, and returns whether there is a valid one.
    fn index(&mut self) -> bool {
        if self.byte() != Some(b'[') {
            return false;
        }
        self.is_reordered = true;
        let rest = &self.format[self.pos..];
        let Some(close) = rest.find(']').filter(|_| rest.len() >= 3) else {
            self.pos += 1;
            self.has_good_index = false;
            return false;
        };
        let end = self.pos + close;
        self.pos += 1;
        let number = self.number(end);
        let is_number = number.is_some() && self.pos == end;
        self.pos = end + 1;
        match number.filter(|number| is_number && (1..=self.values.len()).contains(number)) {
            Some(number) => {
                self.next = number - 1;
                true
            }
            None => {
                self.has_good_index = false;
                is_number
            }
        }
    }
}
