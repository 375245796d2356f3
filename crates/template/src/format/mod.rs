//! Printing of values, as Go's `fmt` does it. Start at [`print`], [`println`] and [`printf`]; `printer.rs` has the verbs,
//! `directive.rs` the flags, widths and argument indexes of format strings.

mod directive;
mod float;
mod padding;
mod printer;

pub(crate) use float::format_float;
pub(crate) use printer::Printer;

use crate::limits::Budget;
use crate::value::Value;

/// The values with spaces between those of which neither is a string.
pub(crate) fn print<'v>(
    values: impl IntoIterator<Item = &'v Value>,
    budget: &Budget,
) -> Result<String, String> {
    let mut printer = Printer::new(budget);
    let mut after_string = true;
    for value in values {
        let is_string = matches!(value, Value::String(_));
        if !is_string && !after_string {
            printer.write(" ");
        }
        printer.print_arg(value, 'v');
        after_string = is_string;
    }
    printer.finish()
}

/// The values with spaces between them, and a newline.
pub(crate) fn println<'v>(
    values: impl IntoIterator<Item = &'v Value>,
    budget: &Budget,
) -> Result<String, String> {
    let mut printer = Printer::new(budget);
    for (i, value) in values.into_iter().enumerate() {
        if i > 0 {
            printer.write(" ");
        }
        printer.print_arg(value, 'v');
    }
    printer.write("\n");
    printer.finish()
}

/// The values by a format string.
pub(crate) fn printf(format: &str, values: &[&Value], budget: &Budget) -> Result<String, String> {
    let mut printer = Printer::new(budget);
    directive::print_all(&mut printer, format, values);
    printer.finish()
}

/// One value by a verb, as `%v` or `%s` prints it.
pub(crate) fn print_verb(value: &Value, verb: char, budget: &Budget) -> Result<String, String> {
    let mut printer = Printer::new(budget);
    printer.print_arg(value, verb);
    printer.finish()
}
