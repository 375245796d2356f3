//! The printer: one value by one verb.

use super::padding::{Base, Flags};
use crate::limits::Budget;
use crate::time_format;
use crate::value::{ElementType, List, MAX_DEPTH, Map, Value};

/// Text under construction, and the flags of the current directive.
#[derive(Debug)]
pub(crate) struct Printer<'b> {
    out: String,
    pub(super) flags: Flags,
    budget: &'b Budget,
    /// The first error; nothing is written after it.
    error: Option<String>,
    depth: usize,
}

impl<'b> Printer<'b> {
    pub(crate) fn new(budget: &'b Budget) -> Self {
        Self {
            out: String::new(),
            flags: Flags::default(),
            budget,
            error: None,
            depth: 0,
        }
    }

    pub(crate) fn finish(self) -> Result<String, String> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        if self.error.is_some() {
            return;
        }
        match self.budget.charge(text.len() + 1) {
            Ok(()) => self.out.push_str(text),
            Err(error) => self.error = Some(error),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    pub(crate) fn print_arg(&mut self, value: &Value, verb: char) {
        match (value, verb) {
            (Value::Nil, 'T' | 'v') => self.pad("<nil>"),
            (_, 'T') => self.format_text(value.type_name()),
            _ => self.print_value(value, verb),
        }
    }

    fn print_value(&mut self, value: &Value, verb: char) {
        if self.depth >= MAX_DEPTH {
            self.error
                .get_or_insert(format!("cannot print values deeper than {MAX_DEPTH} levels"));
        }
        if self.has_failed() {
            return;
        }
        self.depth += 1;
        match value {
            _ if verb == 'w' => self.bad_verb(value, verb),
            Value::Bool(truth) if matches!(verb, 't' | 'v') => {
                self.pad(if *truth { "true" } else { "false" });
            }
            Value::Int(number) | Value::Int64(number) => {
                self.print_integer(value, number.unsigned_abs(), *number < 0, verb);
            }
            Value::Uint8(number) => self.print_integer(value, u64::from(*number), false, verb),
            Value::Uint64(number) => self.print_integer(value, *number, false, verb),
            Value::Float(number) => self.print_float(value, *number, verb),
            Value::Complex(real, imaginary) => self.print_complex(value, (*real, *imaginary), verb),
            Value::String(text) => self.print_text(value, text, verb),
            Value::List(list) => self.print_list(list, verb),
            Value::Map(map) => self.print_map(map, verb),
            Value::Time(time) => self.print_text(value, &time_format::to_string(time), verb),
            Value::Version(version) => self.print_text(value, &version.to_string(), verb),
            _ => self.bad_verb(value, verb),
        }
        self.depth -= 1;
    }

    /// `%!d(string=text)`: a verb that the type does not have.
    fn bad_verb(&mut self, value: &Value, verb: char) {
        self.write(&format!("%!{verb}("));
        match value {
            Value::Nil => self.write("<nil>"),
            Value::Function(_) => self.write(value.type_name()),
            _ => self.typed(value),
        }
        self.write(")");
    }

    pub(super) fn typed(&mut self, value: &Value) {
        self.write(value.type_name());
        self.write("=");
        self.print_arg(value, 'v');
    }

    fn print_integer(&mut self, value: &Value, magnitude: u64, negative: bool, verb: char) {
        let base = |base| Base {
            base,
            is_upper: false,
        };
        let code = if negative { u64::MAX } else { magnitude };
        let is_unsigned = matches!(value, Value::Uint8(_) | Value::Uint64(_));
        match verb {
            'v' if self.flags.sharp_v && is_unsigned => {
                self.flags.sharp = true;
                self.format_integer(magnitude, negative, base(16), verb);
                self.flags.sharp = false;
            }
            'v' | 'd' => self.format_integer(magnitude, negative, base(10), verb),
            'b' => self.format_integer(magnitude, negative, base(2), verb),
            'o' | 'O' => self.format_integer(magnitude, negative, base(8), verb),
            'x' => self.format_integer(magnitude, negative, base(16), verb),
            'X' => self.format_integer(
                magnitude,
                negative,
                Base {
                    base: 16,
                    is_upper: true,
                },
                verb,
            ),
            'c' => self.format_char(code),
            'q' => self.format_quoted_char(code),
            'U' => self.format_unicode(match negative {
                true => magnitude.wrapping_neg(),
                false => magnitude,
            }),
            _ => self.bad_verb(value, verb),
        }
    }

    fn print_float(&mut self, value: &Value, number: f64, verb: char) {
        match verb {
            'v' => self.format_float(number, 'g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => self.format_float(number, verb, None),
            'f' | 'e' | 'E' => self.format_float(number, verb, Some(6)),
            'F' => self.format_float(number, 'f', Some(6)),
            _ => self.bad_verb(value, verb),
        }
    }

    fn print_complex(&mut self, value: &Value, (real, imaginary): (f64, f64), verb: char) {
        if !"vbgGxXfFeE".contains(verb) {
            return self.bad_verb(value, verb);
        }
        let plus = self.flags.plus;
        self.write("(");
        self.print_float(value, real, verb);
        self.flags.plus = true;
        self.print_float(value, imaginary, verb);
        self.write("i)");
        self.flags.plus = plus;
    }

    fn print_text(&mut self, value: &Value, text: &str, verb: char) {
        match verb {
            'v' if self.flags.sharp_v => self.format_quoted(text),
            'v' | 's' => self.format_text(text),
            'x' => self.format_bytes(text, false),
            'X' => self.format_bytes(text, true),
            'q' => self.format_quoted(text),
            _ => self.bad_verb(value, verb),
        }
    }

    fn print_list(&mut self, list: &List, verb: char) {
        let value = Value::List(list.clone());
        if self.flags.sharp_v && value.is_nil() {
            return self.write(&format!("{}(nil)", value.type_name()));
        }
        let (open, separator, close) = match self.flags.sharp_v {
            true => (format!("{}{{", value.type_name()), ", ", "}"),
            false => ("[".to_owned(), " ", "]"),
        };
        self.write(&open);
        for (i, item) in list.items().iter().enumerate() {
            if i > 0 {
                self.write(separator);
            }
            self.print_element(item, list.element(), verb);
        }
        self.write(close);
    }

    fn print_map(&mut self, map: &Map, verb: char) {
        let value = Value::Map(map.clone());
        if self.flags.sharp_v && value.is_nil() {
            return self.write(&format!("{}(nil)", value.type_name()));
        }
        let (open, separator, close) = match self.flags.sharp_v {
            true => (format!("{}{{", value.type_name()), ", ", "}"),
            false => ("map[".to_owned(), " ", "]"),
        };
        self.write(&open);
        for (i, (key, item)) in map.entries().iter().enumerate() {
            if i > 0 {
                self.write(separator);
            }
            self.print_value(&Value::string(key.as_str()), verb);
            self.write(":");
            self.print_element(item, map.element(), verb);
        }
        self.write(close);
    }

    fn print_element(&mut self, item: &Value, element: ElementType, verb: char) {
        match item {
            Value::Nil if self.flags.sharp_v && element == ElementType::Any => {
                self.write("interface {}(nil)");
            }
            Value::Nil => self.write("<nil>"),
            _ => self.print_value(item, verb),
        }
    }
}
