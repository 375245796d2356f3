//! Finds one member of a JSON object in its bytes, without decoding the object.

/// The raw value of a member of the JSON object; `None` if there is no such member.
///
/// The bytes must be well-formed JSON, as stored objects are; otherwise the result is unspecified, but never a panic.
pub(crate) fn find_member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut at = skip_blanks(json, 0);
    if json.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        at = skip_blanks(json, at + 1);
        let key_end = skip_value(json, at)?;
        let key = json.get(at + 1..key_end - 1)?;
        let colon = skip_blanks(json, key_end);
        let value = skip_blanks(json, colon + 1);
        let value_end = skip_value(json, value)?;
        if key == name.as_bytes() {
            return json.get(value..value_end);
        }
        at = skip_blanks(json, value_end);
        if json.get(at) != Some(&b',') {
            return None;
        }
    }
}

fn skip_blanks(json: &[u8], mut at: usize) -> usize {
    while json.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The end of the value that starts at `at`.
fn skip_value(json: &[u8], at: usize) -> Option<usize> {
    match json.get(at)? {
        b'"' => skip_string(json, at),
        b'{' | b'[' => skip_nested(json, at),
        _ => {
            let rest = json.get(at..)?;
            let length = rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace());
            (length != Some(0)).then(|| length.map_or(json.len(), |length| at + length))
        }
    }
}

fn skip_string(json: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn skip_nested(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = skip_string(json, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, name: &str, expected: Option<&str>) {
        let found = find_member(json.as_bytes(), name).map(|value| std::str::from_utf8(value).unwrap());
        assert_eq!(found, expected, "{json}");
    }

    #[test]
    fn the_raw_value_of_a_member_is_found() {
        check(
            r#"{"kind":"A","metadata":{"name":"x"},"spec":{}}"#,
            "metadata",
            Some(r#"{"name":"x"}"#),
        );
        check(r#"{"a":1,"b":true,"c":null}"#, "c", Some("null"));
        check(r#"{"a":[1,{"b":2}],"b":3}"#, "b", Some("3"));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        check(
            r#"{"a":"}\"{","metadata":{"n":"}]\\"},"z":1}"#,
            "metadata",
            Some(r#"{"n":"}]\\"}"#),
        );
    }

    #[test]
    fn only_members_of_the_object_itself_count() {
        check(r#"{"a":{"metadata":1}}"#, "metadata", None);
        check("{}", "metadata", None);
        check("[]", "metadata", None);
    }

    #[test]
    fn broken_bytes_are_no_member() {
        for json in ["", "{", "{\"a", "{\"a\":", "{\"a\":{", "{a:1}", "{,", "{\"a\":}"] {
            check(json, "metadata", None);
        }
    }
}
