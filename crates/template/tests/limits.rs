//! Limits: a template that would take unbounded time, memory or stack is an error.

use setpoint_template::{Environment, Functions, Limits, Template, Value};

const LIMITS: Limits = Limits {
    output_bytes: 1000,
    steps: 100_000,
    depth: 400,
};

#[track_caller]
fn check(template: &str, expected: &str) {
    let parsed = Template::new("x")
        .with_functions(Functions::sprig())
        .with_limits(LIMITS)
        .parse(template);
    let rendered = parsed.and_then(|template| template.render(Value::Nil, &Environment::default()));
    let error = rendered.expect_err(template).to_string();
    assert!(error.ends_with(expected), "{template}: {error}");
}

const STEPS: &str = "exceeded the limit of 100000 steps";

#[test]
fn output_is_limited() {
    check(
        r#"{{range 2000}}x{{end}}"#,
        "exceeded the limit of 1000 bytes of output",
    );
}

#[test]
fn steps_are_limited() {
    check("{{range 9223372036854775807}}{{end}}", STEPS);
    check(r#"{{repeat 1000000000 "abc"}}"#, STEPS);
    check("{{until 1000000000}}", STEPS);
    check(r#"{{indent 1000000000 "x"}}"#, STEPS);
    check(r#"{{printf "%1000000d" 1}}"#, STEPS);
    check(r#"{{range 100}}{{$x := repeat 10000 "a"}}{{end}}"#, STEPS);
}

#[test]
fn values_that_print_exponentially_are_limited() {
    let doubled = "{{$x := list 1}}{{range 60}}{{$x = list $x $x}}{{end}}";
    check(&format!("{doubled}{{{{print $x}}}}"), STEPS);
    check(&format!("{doubled}{{{{toYaml $x}}}}"), STEPS);
    check(&format!("{doubled}{{{{deepCopy $x}}}}"), STEPS);
    check(
        &format!("{doubled}{{{{deepEqual $x (rest $x)}}}}{{{{deepEqual $x (deepCopy $x)}}}}"),
        STEPS,
    );
}

#[test]
fn recursion_is_limited() {
    let endless = r#"{{define "t"}}{{template "t" .}}{{end}}{{template "t" .}}"#;
    check(endless, "exceeded maximum template depth (400)");
    let deep = format!("{{{{{}1{}}}}}", "(".repeat(5000), ")".repeat(5000));
    check(&deep, "max expression depth exceeded");
    let deep = format!("{}{}", "{{if 1}}".repeat(5000), "{{end}}".repeat(5000));
    check(&deep, "max expression depth exceeded");
}

#[test]
fn a_map_cannot_contain_itself() {
    check(
        r#"{{$d := dict}}{{$_ := set $d "a" (list $d)}}"#,
        "a map cannot contain itself",
    );
    check(
        r#"{{$d := dict}}{{$_ := merge $d (dict "a" $d)}}"#,
        "a map cannot contain itself",
    );
}

#[test]
fn a_deep_value_can_be_built_but_not_printed() {
    let nested = "{{$x := 1}}{{range 300}}{{$x = list $x}}{{end}}";
    check(
        &format!("{nested}{{{{print $x}}}}"),
        "cannot print values deeper than 100 levels",
    );
    check(
        &format!("{nested}{{{{deepCopy $x}}}}"),
        "cannot copy values deeper than 100 levels",
    );
}

#[test]
fn a_very_deep_value_is_dropped_without_recursion() {
    let template = Template::new("x").with_functions(Functions::sprig());
    let template = template.parse("{{$x := 1}}{{range 300000}}{{$x = list $x}}{{end}}done");
    let rendered = template.and_then(|template| template.render(Value::Nil, &Environment::default()));
    assert_eq!(rendered.as_deref(), Ok("done"));
}
