//! Expressions and their trees, and the errors of texts that are no expressions.

use super::*;

/// An expression with brackets around every call.
fn display(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Literal(Literal::Int(number)) => number.to_string(),
        ExprKind::Literal(literal) => format!("{literal:?}"),
        ExprKind::Ident(name) => name.to_string(),
        ExprKind::Select(select) => format!("{}.{}", display(&select.operand), select.field),
        ExprKind::Call(call) => {
            let args: Vec<String> = call.target.iter().chain(&call.args).map(display).collect();
            format!("{}({})", call.function, args.join(", "))
        }
        other => format!("{other:?}"),
    }
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(display(&parse(source).unwrap().expr), expected);
}

#[track_caller]
fn check_error(source: &str, expected: &str) {
    let error = parse(source).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn products_bind_more_tightly_than_sums() {
    check("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)");
}

#[test]
fn and_binds_more_tightly_than_or() {
    check("a || b && c", "_||_(a, _&&_(b, c))");
}

#[test]
fn a_conditional_ends_with_a_conditional() {
    check("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))");
}

#[test]
fn a_minus_before_a_number_is_a_part_of_it() {
    check("-1", "-1");
    check("--1", "1");
    check("-a", "-_(a)");
    check("-9223372036854775808", "-9223372036854775808");
}

#[test]
fn optional_selections_are_calls() {
    check("a.?b[?0]", "_[?_](_?._(a, String(\"b\")), 0)");
}

#[test]
fn what_is_missing_is_reported_at_its_position() {
    check_error("(1", "<input>:1:3: Syntax error: missing ')' at '<EOF>'");
    check_error(
        "a b",
        "<input>:1:3: Syntax error: extraneous input 'b' expecting <EOF>",
    );
    check_error("if", "<input>:1:1: reserved identifier: if");
}

#[test]
fn symbols_that_may_follow_a_bracket_are_listed() {
    let tokens = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
    for (source, symbols) in [
        ("[", "'[', ']', '{', '(', '.', ',', '-', '!', '?'"),
        ("{", "'[', '{', '}', '(', '.', ',', '-', '!', '?'"),
        ("f(", "'[', '{', '(', ')', '.', '-', '!'"),
        ("a[", "'[', '{', '(', '.', '-', '!', '?'"),
        ("(", "'[', '{', '(', '.', '-', '!'"),
    ] {
        let column = source.len() + 1;
        let message = format!(
            "<input>:1:{column}: Syntax error: mismatched input '<EOF>' expecting {{{symbols}, {tokens}}}"
        );
        check_error(source, &message);
    }
}

#[test]
fn empty_lists_and_maps_may_have_a_comma() {
    check("[,]", "List([])");
    check("{,}", "Map([])");
}

#[test]
fn nesting_is_bounded() {
    let source = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    check_error(&source, "expression recursion limit exceeded: 100");
}

#[test]
fn chains_are_bounded() {
    let source = format!("a{}", ".b".repeat(10_000));
    check_error(&source, "ERROR: <input>:-1:0: max recursion depth exceeded");
    let source = format!("1{}", " + 1".repeat(10_000));
    check_error(&source, "ERROR: <input>:-1:0: max recursion depth exceeded");
}
