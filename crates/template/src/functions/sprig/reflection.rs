//! Types and kinds of values.

use super::super::Type::{Any, String as Text};
use super::super::{Row, row};
use super::text::{text, truth};
use crate::value::deep_equal;

pub(super) const ROWS: &[Row] = &[
    row("typeOf", &[Any], |_, args| text(args[0].value.type_name())),
    row("typeIs", &[Text, Any], |_, args| {
        truth(args[0].as_str() == args[1].value.type_name())
    }),
    row("typeIsLike", &[Text, Any], |_, args| {
        let name = args[1].value.type_name();
        truth(args[0].as_str() == name || Some(args[0].as_str()) == name.strip_prefix('*'))
    }),
    row("kindOf", &[Any], |_, args| text(args[0].value.kind_name())),
    row("kindIs", &[Text, Any], |_, args| {
        truth(args[0].as_str() == args[1].value.kind_name())
    }),
    row("deepEqual", &[Any, Any], |context, args| {
        truth(deep_equal(&args[0].value, &args[1].value, context.budget())?)
    }),
];
