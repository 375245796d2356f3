//! Signatures in one line: whitespace, attributes and trailing commas as they do not matter to a caller.

use super::scan::split_top;
use crate::tidy::source::bracket_end;

/// One line without attributes, with single blanks and without trailing commas.
pub(super) fn normalize(code: &str) -> String {
    let code = without_attributes(code);
    let mut line = String::new();
    for word in code.split_whitespace() {
        let opens = line.ends_with(['(', '[']) || (line.ends_with('<') && !line.ends_with(" <"));
        let closes = word.starts_with([')', ']', ',', ';', '>']) && !line.is_empty();
        if closes && line.ends_with(',') && !word.starts_with(',') {
            line.pop();
        }
        if !line.is_empty() && !opens && !closes {
            line.push(' ');
        }
        line.push_str(word);
    }
    let line = line.replace(", }", " }").replace(",)", ")");
    line.trim_end_matches(',').trim_end().to_owned()
}

fn without_attributes(code: &str) -> String {
    let (mut kept, mut at) = (String::new(), 0);
    while let Some(found) = code[at..].find("#[") {
        kept.push_str(&code[at..at + found]);
        at = bracket_end(code, at + found + 1, (b'[', b']'));
    }
    kept + &code[at..]
}

/// A tuple struct with its private fields as `_`.
pub(super) fn tuple_struct(header: &str) -> String {
    let Some((before, rest)) = header.split_once('(') else {
        return header.to_owned();
    };
    let Some((fields, after)) = rest.rsplit_once(')') else {
        return header.to_owned();
    };
    // `pub struct X<F: Fn(A)>` has a parenthesis that opens no fields.
    if before.matches('<').count() != before.matches('>').count() {
        return header.to_owned();
    }
    let fields: Vec<String> = split_top(fields, b',').into_iter().map(tuple_field).collect();
    format!("{before}({}){after}", fields.join(", "))
}

fn tuple_field(field: &str) -> String {
    let field = normalize(field);
    if is_public_field(&field) {
        field
    } else {
        "_".to_owned()
    }
}

/// Whether a field is `pub`; `pub(crate)` is not. The field is normalized.
pub(super) fn is_public_field(field: &str) -> bool {
    field
        .strip_prefix("pub ")
        .is_some_and(|rest| !rest.starts_with("(crate)") && !rest.starts_with("(super)"))
}

/// The last segment of a path, without references, lifetimes and generics: `Stored` of `&'a object::Stored<T>`.
pub(super) fn base_name(path: &str) -> &str {
    let mut path = path.trim();
    loop {
        let stripped = path
            .strip_prefix('&')
            .or_else(|| path.strip_prefix("mut "))
            .or_else(|| path.strip_prefix("dyn "))
            .or_else(|| {
                path.strip_prefix('\'')
                    .and_then(|rest| Some(rest.split_once(' ')?.1))
            });
        match stripped {
            Some(rest) => path = rest.trim_start(),
            None => break,
        }
    }
    let path = path.split(['<', '(', ' ', '\n']).next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_over_several_lines_becomes_one() {
        let code = "pub fn f<T>(\n    a: Vec<T>,\n    #[x] b: [u8; 4],\n) -> T\nwhere\n    T: Send,\n";
        assert_eq!(
            normalize(code),
            "pub fn f<T>(a: Vec<T>, b: [u8; 4]) -> T where T: Send"
        );
    }

    #[test]
    fn private_fields_of_a_tuple_struct_are_blanks() {
        assert_eq!(
            tuple_struct("pub struct A(pub u8, Vec<u8>)"),
            "pub struct A(pub u8, _)"
        );
        assert_eq!(tuple_struct("pub struct A(pub(crate) u8)"), "pub struct A(_)");
        assert_eq!(tuple_struct("pub struct A"), "pub struct A");
    }

    #[test]
    fn the_base_name_of_a_type_is_its_last_segment() {
        for (path, name) in [
            ("a::B<C>", "B"),
            ("&'a mut B", "B"),
            ("dyn Serve", "Serve"),
            ("[T]", "[T]"),
        ] {
            assert_eq!(base_name(path), name);
        }
    }
}
