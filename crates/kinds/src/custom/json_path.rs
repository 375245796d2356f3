//! The JSON paths that columns use: `.spec.replicas`, `.spec.list[0].name`, `.spec.list[*]`,
//! `.status.conditions[?(@.type=="Ready")].status`.

use std::str::FromStr;

use setpoint_schema::Tree;

/// A path into a document, which may find several places.
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
    /// The items whose field at the path has the value, or has another.
    Where {
        path: JsonPath,
        equal: bool,
        value: Literal,
    },
}

/// What a filter compares with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Literal {
    Text(String),
    Number(i64),
    Bool(bool),
    /// The field only has to be there.
    Anything,
}

/// The text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no JSON path")]
pub struct BadPath(String);

impl JsonPath {
    /// What stands at the path, in order; nothing if it leads nowhere.
    pub fn find<'a>(&self, document: &'a Tree) -> Vec<&'a Tree> {
        let mut places = vec![document];
        for step in &self.steps {
            places = places.into_iter().flat_map(|place| step.follow(place)).collect();
        }
        places
    }
}

impl Step {
    fn follow<'a>(&self, place: &'a Tree) -> Vec<&'a Tree> {
        let items = || place.as_list().unwrap_or_default();
        match self {
            Step::Field(name) => place.get(name).into_iter().collect(),
            Step::Index(index) => {
                let index = match index {
                    0.. => usize::try_from(*index).ok(),
                    _ => items().len().checked_sub(index.unsigned_abs() as usize),
                };
                index.and_then(|index| items().get(index)).into_iter().collect()
            }
            Step::All => match place {
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
            (Literal::Text(text), Tree::Str(own)) => text == own.as_str(),
            (Literal::Number(number), Tree::Int(own)) => number == own,
            (Literal::Bool(value), Tree::Bool(own)) => value == own,
            _ => false,
        }
    }
}

impl FromStr for JsonPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let bad = || BadPath(text.to_owned());
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

/// The first step of a path, and what follows it. A dot in front of a bracket is no step by itself.
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

/// Where the bracket closes that was opened before the text.
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
        let document = setpoint_codec::json::parse(json).unwrap();
        let path: JsonPath = path.parse().unwrap();
        let found: Vec<String> = path
            .find(&document)
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
    fn what_is_no_path_is_refused() {
        for text in ["spec", "x[", ".spec[", ".spec[x]", ".."] {
            assert!(text.parse::<JsonPath>().is_err(), "{text}");
        }
    }
}
