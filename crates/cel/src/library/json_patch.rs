//! Keys of JSON patches: `jsonpatch.escapeKey('example.com/name')`.

use super::{Builtin, no_such_overload};
use crate::value::Value;

/// Declared only for expressions that construct patches.
pub(crate) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[(ESCAPE_KEY, |args, _| match args {
    [Value::String(key)] => {
        let escaped = key.as_str().replace('~', "~0").replace('/', "~1");
        Ok(Value::string(escaped))
    }
    _ => no_such_overload(),
})];
