//! Comparison of an expected object with an actual one: keys that are not expected do not matter.

use serde_json::Value;

/// Checks that `expected` is contained in `actual`. Maps may have further keys; lists and values must be equal. The error
/// names the path of the first difference.
pub(crate) fn check_subset(expected: &Value, actual: &Value) -> Result<(), String> {
    compare(expected, actual).map_err(|(path, message)| match path.is_empty() {
        true => message,
        false => format!(".{}: {message}", path.join(".")),
    })
}

type Difference = (Vec<String>, String);

fn compare(expected: &Value, actual: &Value) -> Result<(), Difference> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                let Some(other) = actual.get(key) else {
                    return Err((vec![key.clone()], "key is missing from map".to_owned()));
                };
                compare(value, other).map_err(|(mut path, message)| {
                    path.insert(0, key.clone());
                    (path, message)
                })?;
            }
            Ok(())
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() != actual.len() => {
            let message = format!("slice length mismatch: {} != {}", expected.len(), actual.len());
            Err((Vec::new(), message))
        }
        (Value::Array(expected), Value::Array(actual)) => expected
            .iter()
            .zip(actual)
            .try_for_each(|(expected, actual)| compare(expected, actual)),
        // Whole numbers are compared as such: large ones that differ may have the same floating-point value.
        (Value::Number(left), Value::Number(right))
            if (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64() =>
        {
            Ok(())
        }
        _ if expected == actual => Ok(()),
        _ if type_name(expected) != type_name(actual) => {
            let message = format!("type mismatch: {} != {}", type_name(expected), type_name(actual));
            Err((Vec::new(), message))
        }
        _ => {
            let (expected, actual) = (plain(expected), plain(actual));
            let message = format!("value mismatch, expected: {expected} != actual: {actual}");
            Err((Vec::new(), message))
        }
    }
}

/// The Go type, as messages show it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(expected: Value, actual: Value, outcome: Result<(), &str>) {
        let compared = check_subset(&expected, &actual);
        assert_eq!(compared.as_ref().copied().map_err(String::as_str), outcome);
    }

    #[test]
    fn further_keys_do_not_matter() {
        check(
            json!({"a": {"b": 1}}),
            json!({"a": {"b": 1, "c": 2}, "d": 3}),
            Ok(()),
        );
    }

    #[test]
    fn large_numbers_are_compared_exactly() {
        check(
            json!({"a": 9_007_199_254_740_993_u64}),
            json!({"a": 9_007_199_254_740_992_u64}),
            Err(".a: value mismatch, expected: 9007199254740993 != actual: 9007199254740992"),
        );
        check(json!({"a": 1.0}), json!({"a": 1}), Ok(()));
    }

    #[test]
    fn the_path_of_a_difference_is_in_the_message() {
        check(
            json!({"a": {"b": "x"}}),
            json!({"a": {"b": "y"}}),
            Err(".a.b: value mismatch, expected: x != actual: y"),
        );
        check(
            json!({"a": {"b": 1}}),
            json!({"a": {}}),
            Err(".a.b: key is missing from map"),
        );
        check(
            json!({"a": [1]}),
            json!({"a": [1, 2]}),
            Err(".a: slice length mismatch: 1 != 2"),
        );
        check(
            json!({"a": "1"}),
            json!({"a": 1}),
            Err(".a: type mismatch: string != int64"),
        );
    }
}
