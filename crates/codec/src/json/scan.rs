//! Reads members of a JSON object from its bytes, without decoding the object.
//!
//! The bytes must be well-formed JSON, as stored objects are; otherwise the members are unspecified, but there is no panic.

/// The members of a JSON object: key and raw value.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    json: &'a [u8],
    at: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the opening bracket.
    Start,
    /// After a member.
    Between,
    /// After the closing bracket, or after malformed bytes.
    End,
}

/// The bytes are not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON object")]
pub struct MalformedJson;

/// The members of the JSON object, in order. Keys are without quotes, and escapes in them are not decoded.
pub fn members(json: &[u8]) -> Members<'_> {
    Members {
        json,
        at: 0,
        state: State::Start,
    }
}

/// The raw value of a member of the JSON object; `None` if there is no such member.
pub fn find_member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut members = members(json).map_while(Result::ok);
    let found = members.find(|(key, _)| *key == name.as_bytes());
    found.map(|(_, value)| value)
}

/// Whether any object in the JSON may have a member of this name: its key, or an equal string, is in the bytes.
pub fn mentions_key(json: &[u8], name: &str) -> bool {
    let mut quoted = Vec::with_capacity(name.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(name.as_bytes());
    quoted.push(b'"');
    memchr::memmem::find(json, &quoted).is_some()
}

/// The raw items of the JSON array, in order; none if it is no array.
pub fn items(json: &[u8]) -> impl Iterator<Item = &[u8]> {
    let start = skip_blanks(json, 0);
    let mut at = (json.get(start) == Some(&b'[')).then_some(start + 1);
    std::iter::from_fn(move || {
        let item = skip_blanks(json, at?);
        let end = skip_value(json, item);
        let after = end.map(|end| skip_blanks(json, end));
        at = after
            .filter(|after| json.get(*after) == Some(&b','))
            .map(|after| after + 1);
        json.get(item..end?)
    })
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), MalformedJson>;

    fn next(&mut self) -> Option<Self::Item> {
        let (before, state) = (skip_blanks(self.json, self.at), self.state);
        self.state = State::End;
        let member = match (state, self.json.get(before)) {
            (State::End, _) | (State::Between, Some(b'}')) => return None,
            (State::Start, Some(b'{')) => {
                let first = skip_blanks(self.json, before + 1);
                if self.json.get(first) == Some(&b'}') {
                    return None;
                }
                self.member(first)
            }
            (State::Between, Some(b',')) => self.member(skip_blanks(self.json, before + 1)),
            _ => None,
        };
        if member.is_some() {
            self.state = State::Between;
        }
        Some(member.ok_or(MalformedJson))
    }
}

impl<'a> Members<'a> {
    /// Reads the member that starts at `at`.
    fn member(&mut self, at: usize) -> Option<(&'a [u8], &'a [u8])> {
        let json = self.json;
        if json.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = skip_string(json, at)?;
        let colon = skip_blanks(json, key_end);
        if json.get(colon) != Some(&b':') {
            return None;
        }
        let value = skip_blanks(json, colon + 1);
        self.at = skip_value(json, value)?;
        Some((json.get(at + 1..key_end - 1)?, json.get(value..self.at)?))
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
        at += memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        match json[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
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

    #[track_caller]
    fn check_items(json: &str, expected: &[&str]) {
        let found: Vec<&str> = items(json.as_bytes())
            .map(|item| std::str::from_utf8(item).unwrap())
            .collect();
        assert_eq!(found, expected, "{json}");
    }

    #[test]
    fn the_raw_items_of_an_array_are_read_in_order() {
        check_items("[]", &[]);
        check_items(" [ ] ", &[]);
        check_items(r#"[1, {"a":[2]} ,"x,]"]"#, &["1", r#"{"a":[2]}"#, r#""x,]""#]);
        check_items("{}", &[]);
        check_items("[[1,2],[3", &["[1,2]"]);
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
    fn malformed_bytes_are_reported() {
        for json in [
            "",
            "[]",
            "{",
            "{\"a\":1",
            "{\"a\":1 \"b\":2}",
            "{\"a\" 1}",
            "{a:1}",
        ] {
            let read: Result<Vec<_>, _> = members(json.as_bytes()).collect();
            assert_eq!(read, Err(MalformedJson), "{json}");
        }
        let read: Result<Vec<_>, _> = members(br#" { "a" : [1] , "b":"x" } "#).collect();
        assert_eq!(
            read,
            Ok(vec![(&b"a"[..], &b"[1]"[..]), (&b"b"[..], &b"\"x\""[..])])
        );
    }

    #[test]
    fn broken_bytes_are_no_member() {
        for json in ["", "{", "{\"a", "{\"a\":", "{\"a\":{", "{a:1}", "{,", "{\"a\":}"] {
            check(json, "metadata", None);
        }
    }
}
