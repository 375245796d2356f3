//! The JSONPath subset of printer columns: `.spec.replicas`, `.spec.list[0].name`, `.spec.list[*]`,
//! `.status.conditions[?(@.type=="Ready")].status`.

use std::str::FromStr;

use setpoint_schema::Tree;

/// A path into an object, which may match several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Counted from the end if negative.
    Index(i64),
    All,
    /// The items whose value at the path is equal, or not equal, to the literal.
    Where {
        path: JsonPath,
        equal: bool,
        value: Literal,
    },
}

/// The right side of a filter's comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Literal {
    Text(String),
    Number(i64),
    Bool(bool),
    /// No comparison: the field only has to be present.
    Anything,
}

/// A text is not a supported JSONPath.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON path {0:?}")]
pub struct InvalidJsonPath(String);

impl JsonPath {
    /// The matching values, in order; empty if nothing matches.
    pub fn find<'a>(&self, object: &'a Tree) -> Vec<&'a Tree> {
        let mut values = vec![object];
        for step in &self.steps {
            values = values.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        values
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Tree) -> Vec<&'a Tree> {
        let items = || value.as_list().unwrap_or_default();
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::Index(index) => {
                let index = match index {
                    0.. => usize::try_from(*index).ok(),
                    _ => items().len().checked_sub(index.unsigned_abs() as usize),
                };
                index.and_then(|index| items().get(index)).into_iter().collect()
            }
            Step::All => match value {
                Tree::Map(map) => map.values().collect(),
                _ => items().iter().collect(),
            },
            Step::Where { path, equal, value } => items()
                .iter()
                .filter(|item| {
                    path.find(item)
                        .first()
                        .is_some_and(|found| value.is(found) == *equal)
                })
                .collect(),
        }
    }
}

impl Literal {
    fn is(&self, tree: &Tree) -> bool {
        match (self, tree) {
            (Literal::Anything, _) => true,
            (Literal::Text(text), Tree::Str(other)) => text == other.as_str(),
            (Literal::Number(number), Tree::Int(other)) => number == other,
            (Literal::Bool(value), Tree::Bool(other)) => value == other,
            _ => false,
        }
    }
}

impl FromStr for JsonPath {
    type Err = InvalidJsonPath;

    fn from_str(text: &str) -> Result<Self, InvalidJsonPath> {
        let bad = || InvalidJsonPath(text.to_owned());
        let mut rest = text.trim();
        if let Some(inner) = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            rest = inner;
        }
        rest = rest.strip_prefix('$').unwrap_or(rest);
        if !rest.is_empty() && !rest.starts_with(['.', '[']) {
            return Err(bad());
        }
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, behind) = step(rest).ok_or_else(bad)?;
            steps.extend(step);
            rest = behind;
        }
        Ok(Self { steps })
    }
}

/// The first step of a path, and the rest. A dot before a bracket is no step of its own.
fn step(rest: &str) -> Option<(Option<Step>, &str)> {
    if let Some(inside) = rest.strip_prefix('[') {
        let end = closing(inside)?;
        return Some((Some(bracket(&inside[..end])?), &inside[end + 1..]));
    }
    let rest = rest.strip_prefix('.')?;
    if rest.is_empty() || rest.starts_with('[') {
        return Some((None, rest));
    }
    let mut name = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, next)) = characters.next() {
        match next {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' => return (!name.is_empty()).then_some((Some(field(name)), &rest[at..])),
            next => name.push(next),
        }
    }
    Some((Some(field(name)), ""))
}

fn field(name: String) -> Step {
    match name.as_str() {
        "*" => Step::All,
        _ => Step::Field(name),
    }
}

/// The index of the bracket that closes the one before the text.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (at, next) in text.char_indices() {
        match (quote, next) {
            (Some(open), next) if next == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(next),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return where_(filter);
    }
    if let Some(name) = quoted(text) {
        return Some(Step::Field(name));
    }
    text.parse().ok().map(Step::Index)
}

fn where_(filter: &str) -> Option<Step> {
    let (path, equal, value) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((path, value)), _) => (path, true, literal(value.trim())?),
        (None, Some((path, value))) => (path, false, literal(value.trim())?),
        (None, None) => (filter, true, Literal::Anything),
    };
    let path = path.trim().strip_prefix('@')?.parse().ok()?;
    Some(Step::Where { path, equal, value })
}

fn literal(text: &str) -> Option<Literal> {
    if let Some(text) = quoted(text) {
        return Some(Literal::Text(text));
    }
    match text {
        "true" => Some(Literal::Bool(true)),
        "false" => Some(Literal::Bool(false)),
        number => number.parse().ok().map(Literal::Number),
    }
}

fn quoted(text: &str) -> Option<String> {
    ['\'', '"'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        Some(inner.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &[&str]) {
        let json = br#"{"spec":{"n":3,"a.b":"dot","list":[{"t":"A","v":"1"},{"t":"B","v":"2"}]}}"#;
        let object = setpoint_codec::json::parse(json).unwrap();
        let path: JsonPath = path.parse().unwrap();
        let found: Vec<String> = path
            .find(&object)
            .iter()
            .map(|value| value.as_str().map_or_else(|| format!("{value:?}"), str::to_owned))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_finds_what_it_names() {
        check(".spec.n", &["Int(3)"]);
        check(".spec.list[1].v", &["2"]);
        check(".spec.list[-1].v", &["2"]);
        check(".spec.list[*].v", &["1", "2"]);
        check(r#".spec.list[?(@.t=="B")].v"#, &["2"]);
        check(r".spec.a\.b", &["dot"]);
        check(".spec['a.b']", &["dot"]);
        check(".spec.none.deeper", &[]);
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for text in ["spec", "x[", ".spec[", ".spec[x]", ".."] {
            assert!(text.parse::<JsonPath>().is_err(), "{text}");
        }
    }
}
