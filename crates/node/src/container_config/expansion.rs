//! `$(NAME)` in commands, arguments, values and sub-paths. `$$(NAME)` is the text `$(NAME)`, and a reference to what does
//! not exist stays as it is.

/// The text with every reference replaced by what `value` returns for its name.
pub(super) fn expand(text: &str, mut value: impl FnMut(&str) -> String) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = match after.chars().next() {
            Some('$') => {
                expanded.push('$');
                &after[1..]
            }
            Some('(') => match after[1..].split_once(')') {
                Some((name, tail)) => {
                    expanded.push_str(&value(name));
                    tail
                }
                None => {
                    expanded.push_str("$(");
                    &after[1..]
                }
            },
            _ => {
                expanded.push('$');
                after
            }
        };
    }
    expanded + rest
}

/// The text of a reference to a variable that does not exist.
pub(super) fn unresolved(name: &str) -> String {
    format!("$({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let value = |name: &str| match name {
            "A" => "1".to_owned(),
            "B" => "$(A)".to_owned(),
            _ => unresolved(name),
        };
        assert_eq!(expand(text, value), expected);
    }

    #[test]
    fn references_are_replaced_once() {
        check("$(A)-$(B)", "1-$(A)");
        check("x$(A", "x$(A");
        check("$$(A) $$$(A)", "$(A) $1");
        check("$(C) $", "$(C) $");
        check("$A é$(A)", "$A é1");
        check("$()", "$()");
    }
}
