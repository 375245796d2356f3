//! Expressions and their values.

use setpoint_schema::Tree;

use crate::{Environment, Type, Value, ValueSchema};

const LIMIT: u64 = 1_000_000;

/// Evaluates an expression without variables and displays the result.
fn evaluate(source: &str) -> String {
    let program = match Environment::default().compile(source) {
        Ok(program) => program,
        Err(error) => return format!("{error}"),
    };
    let evaluation = program.evaluate(Vec::new(), LIMIT);
    match evaluation.value {
        Ok(value) => display(&value),
        Err(error) => format!("error: {error}"),
    }
}

fn display(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| display(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries = map.entries();
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", display(key), display(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", display(value)),
        Value::Null => "null".to_owned(),
        Value::Duration(duration) => crate::time::format_duration(*duration),
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Type(own) => own.to_string(),
        other => other.display(),
    }
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(evaluate(source), expected, "{source}");
}

#[test]
fn operators_have_the_precedence_of_the_language() {
    check("1 + 2 * 3", "7");
    check("(1 + 2) * 3", "9");
    check("-2 - -3", "1");
    check("!true || true", "true");
    check("true ? 1 : 2", "1");
    check("1 < 2 && 2 < 3", "true");
    check("'a' + 'b' == \"ab\"", "true");
    check("7 / 2", "3");
    check("-7 % 3", "-1");
    check("1 < 1.5", "true");
    check(
        "2u == 2",
        "ERROR: <input>:1:4: found no matching overload for '_==_' applied to '(uint, int)'\n | 2u == 2\n | ...^",
    );
}

#[test]
fn logical_operators_absorb_errors() {
    check("1 / 0 == 1 || true", "true");
    check("false && 1 / 0 == 1", "false");
    check("1 / 0 == 1 && false", "false");
    check("1 / 0 == 1 || false", "error: division by zero");
    check("[1, 0].all(x, 1 / x == 2)", "false");
    check("[0, 1].exists(x, 1 / x == 1)", "true");
}

#[test]
fn macros_are_loops() {
    check("[1, 2, 3].map(x, x * 2)", "[2, 4, 6]");
    check("[1, 2, 3].map(x, x > 1, x * 2)", "[4, 6]");
    check("[1, 2, 3].filter(x, x != 2)", "[1, 3]");
    check("[1, 2].exists_one(x, x == 2)", "true");
    check("{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])", "true");
    check("has({'a': 1}.a) && !has({'a': 1}.b)", "true");
    check("[1, 2].all(i, v, i + 1 == v)", "true");
    check("{'a': 1}.transformMap(k, v, v + 1)", "{\"a\": 2}");
    check("[3, 1, 2].sortBy(x, -x)", "[3, 2, 1]");
    check("[5, 6].transformList(i, v, i + v)", "[5, 7]");
}

#[test]
fn optional_values_are_chained() {
    check("{'a': {'b': 1}}.?a.?b", "some(1)");
    check("{'a': {'b': 1}}.?x.?b.orValue(5)", "5");
    check("[1][?3].hasValue()", "false");
    check("optional.of(2).optMap(x, x * 2)", "some(4)");
    check("[?optional.none(), 1]", "[1]");
    check("optional.none().or(optional.of(1)).value()", "1");
}

#[test]
fn strings_count_characters() {
    check("'größe'.size()", "5");
    check("'tacocat'.indexOf('c', 3)", "4");
    check("'tacocat'.lastIndexOf('at')", "5");
    check("'a-b-c'.split('-', 2)", "[\"a\", \"b-c\"]");
    check("['a', 'b'].join('-')", "\"a-b\"");
    check("'hello'.substring(1, 3)", "\"el\"");
    check("'%s is %d'.format([dyn('x'), dyn(3)])", "\"x is 3\"");
    check("'%.2f'.format([3.14159])", "\"3.14\"");
    check("strings.quote('a\"b')", "\"\\\"a\\\\\\\"b\\\"\"");
    check("'abc123'.find('[0-9]+')", "\"123\"");
    check("'hello'.charAt(9)", "error: index out of range: 9");
}

#[test]
fn kubernetes_libraries_are_there() {
    check("quantity('1.5Gi').isGreaterThan(quantity('1Gi'))", "true");
    check("quantity('200M').asInteger()", "200000000");
    check("ip('192.168.0.1').family()", "4");
    check("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "true");
    check("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "true");
    check("url('https://a.example:80/p?k=v').getHostname()", "\"a.example\"");
    check("url('https://a.example/p?k=v').getQuery()", "{\"k\": [\"v\"]}");
    check("semver('1.2.3').isLessThan(semver('1.10.0'))", "true");
    check("isSemver('v1.0', true)", "true");
    check("format.dns1123Label().validate('ok')", "none");
    check("[1, 2, 3].sum()", "6");
    check("[3, 1].isSorted()", "false");
    check("sets.contains([1, 2], [2])", "true");
    check("duration('1h') + duration('30m')", "5400s");
    check("timestamp('2026-01-02T03:04:05Z').getMonth()", "0");
}

#[test]
fn objects_are_read_by_their_schema() {
    let declared = ValueSchema::object(
        "Object",
        [
            ("replicas".to_owned(), ValueSchema::scalar(Type::Int)),
            ("x-name".to_owned(), ValueSchema::scalar(Type::String)),
        ],
    );
    let environment = Environment::default().with_variable("self", declared);
    let mut object = Tree::default();
    object.set(&["replicas"], 3_i64);
    object.set(&["x-name"], "web");
    let evaluate = |source: &str| {
        let program = environment.compile(source).unwrap();
        let evaluation = program.evaluate(vec![program.bind(0, &object)], LIMIT);
        (evaluation.value.map(|value| display(&value)), evaluation.cost)
    };
    assert_eq!(evaluate("self.replicas > 2"), (Ok("true".to_owned()), 3));
    assert_eq!(evaluate("self.x__dash__name").0, Ok("\"web\"".to_owned()));
    let error = environment.compile("self.missing").unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERROR: <input>:1:5: undefined field 'missing'\n | self.missing\n | ....^"
    );
}

#[test]
fn an_evaluation_stops_at_its_limit() {
    let source = "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))";
    let program = Environment::default().compile(source).unwrap();
    let evaluation = program.evaluate(Vec::new(), 10_000);
    assert_eq!(
        evaluation.value.unwrap_err().to_string(),
        "operation cancelled: actual cost limit exceeded"
    );
}
