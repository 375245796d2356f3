//! The names in a project: those of the template, and what takes their place.

use std::path::Path;

use anyhow::{Result, bail};

/// What stands in a project where the template has its own names.
#[derive(Debug)]
pub(super) struct TemplateNames {
    /// Those of the template, longer ones before those they begin with, and what takes their place.
    replacements: [(&'static str, String); 7],
}

/// Words that no module can have for a name; `controller` is one in every project.
const RESERVED: &[&str] = &[
    "as",
    "async",
    "await",
    "box",
    "break",
    "const",
    "continue",
    "controller",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "main",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "try",
    "type",
    "union",
    "unsafe",
    "use",
    "where",
    "while",
    "yield",
];

impl TemplateNames {
    pub(super) fn new(name: &str, kind: Option<&str>, group: &str, source: &Path) -> Result<Self> {
        let name_is_fine =
            name.split('-').all(is_word) && name.starts_with(|letter: char| letter.is_ascii_lowercase());
        if !name_is_fine {
            bail!("{name:?} is no name such as shop or shop-operator");
        }
        let kind = kind.map_or_else(|| kind_of(name), ToOwned::to_owned);
        let singular = kind.to_lowercase();
        let starts_well = kind.starts_with(|letter: char| letter.is_ascii_uppercase());
        if !starts_well || !is_word(&singular) || RESERVED.contains(&singular.as_str()) {
            bail!("{kind:?} is no kind such as Shop");
        }
        if !group.contains('.') || !group.split(['.', '-']).all(is_word) {
            bail!("{group:?} is no group such as example.com");
        }
        let source = format!("{}/crates", source.display());
        let pairs = [
            ("greeter-operator", name.to_owned()),
            ("greeter_operator", name.replace('-', "_")),
            ("Greeter", kind),
            ("greeters", plural(&singular)),
            ("greeter", singular),
            ("example.com", group.to_owned()),
            ("../../crates", source),
        ];
        Ok(Self { replacements: pairs })
    }

    /// The text with the words of the project. What has been put in is not looked at again.
    pub(super) fn render(&self, text: &str) -> String {
        let (mut made, mut rest) = (String::new(), text);
        let next = |rest: &str| {
            let found = self
                .replacements
                .iter()
                .filter_map(|(old, new)| Some((rest.find(old)?, *old, new.as_str())));
            found
                .min_by_key(|(at, old, _)| (*at, usize::MAX - old.len()))
                .map(|(at, old, new)| (at, old.len(), new.to_owned()))
        };
        while let Some((at, len, new)) = next(rest) {
            made.push_str(&rest[..at]);
            made.push_str(&new);
            rest = &rest[at + len..];
        }
        made + rest
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
}

/// `shop-operator` looks after a Shop.
fn kind_of(name: &str) -> String {
    let stem = ["-operator", "-controller"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    stem.unwrap_or(name).split('-').map(capital).collect()
}

/// As English has it, for most words.
fn plural(word: &str) -> String {
    let hisses = ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|ending| word.ends_with(ending));
    let before_y = word
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match (hisses, before_y) {
        (true, _) => format!("{word}es"),
        (false, Some(stem)) => format!("{stem}ies"),
        (false, None) => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, kind: Option<&str>, group: &str, expected: Option<&str>) {
        let words = TemplateNames::new(name, kind, group, Path::new("/src")).ok();
        let template =
            "greeter-operator greeter_operator GreeterSpec greeters greeter.rs example.com ../../crates/api";
        assert_eq!(
            words.map(|words| words.render(template)).as_deref(),
            expected,
            "{name}"
        );
    }

    #[test]
    fn each_name_of_the_template_gives_way_to_the_projects_own() {
        let shop = "shop-operator shop_operator ShopSpec shops shop.rs my.org /src/crates/api";
        check("shop-operator", None, "my.org", Some(shop));
        let box_ = "my-box my_box MyBoxSpec myboxes mybox.rs example.com /src/crates/api";
        check("my-box", None, "example.com", Some(box_));
        let policy = "guard guard PolicySpec policies policy.rs a.b /src/crates/api";
        check("guard", Some("Policy"), "a.b", Some(policy));
        let own =
            "greeter-operator greeter_operator GreeterSpec greeters greeter.rs example.com /src/crates/api";
        check("greeter-operator", None, "example.com", Some(own));
    }

    #[test]
    fn names_that_no_project_can_have_are_refused() {
        for (name, kind, group) in [
            ("Shop", None, "a.b"),
            ("2shop", None, "a.b"),
            ("shop-", None, "a.b"),
            ("type", None, "a.b"),
            ("shop", Some("shop"), "a.b"),
            ("shop", Some("Controller"), "a.b"),
            ("shop", None, "nodot"),
            ("shop", None, "A.b"),
        ] {
            check(name, kind, group, None);
        }
    }
}
