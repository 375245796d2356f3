//! The names in the template, and their replacements in a generated project.

use anyhow::{Result, bail};

/// The replacements of the template's names.
#[derive(Debug)]
pub(super) struct TemplateNames {
    /// The template's names, longer ones before their prefixes, and the replacement of each.
    replacements: [(&'static str, String); 6],
}

/// Names that the module of the kind cannot have: Rust's keywords, and `controller`, a module of every project.
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
    pub(super) fn new(name: &str, kind: Option<&str>, group: &str) -> Result<Self> {
        let name_is_fine =
            name.split('-').all(is_word) && name.starts_with(|letter: char| letter.is_ascii_lowercase());
        if !name_is_fine {
            bail!(
                "invalid name {name:?}: expected lower-case words joined by hyphens, such as backup-operator"
            );
        }
        let kind = kind.map_or_else(|| kind_of(name), ToOwned::to_owned);
        let singular = kind.to_lowercase();
        let starts_well = kind.starts_with(|letter: char| letter.is_ascii_uppercase());
        if !starts_well || !is_word(&singular) || RESERVED.contains(&singular.as_str()) {
            bail!(
                "invalid kind {kind:?}: expected an upper-case letter, then letters and digits, such as Backup"
            );
        }
        if !group.contains('.') || !group.split(['.', '-']).all(is_word) {
            bail!("invalid group {group:?}: expected a DNS name such as example.com");
        }
        let pairs = [
            ("greeter-operator", name.to_owned()),
            ("greeter_operator", name.replace('-', "_")),
            ("Greeter", kind),
            ("greeters", plural(&singular)),
            ("greeter", singular),
            ("example.com", group.to_owned()),
        ];
        Ok(Self { replacements: pairs })
    }

    /// The text with all names replaced. Replacements are not scanned for names again.
    pub(super) fn render(&self, text: &str) -> String {
        let (mut output, mut rest) = (String::new(), text);
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
            output.push_str(&rest[..at]);
            output.push_str(&new);
            rest = &rest[at + len..];
        }
        output + rest
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
}

/// `backup-operator` reconciles a Backup.
fn kind_of(name: &str) -> String {
    let stem = ["-operator", "-controller"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    stem.unwrap_or(name).split('-').map(capital).collect()
}

/// The English plural of most nouns.
fn plural(word: &str) -> String {
    let sibilant = ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|ending| word.ends_with(ending));
    let before_y = word
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match (sibilant, before_y) {
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
        let names = TemplateNames::new(name, kind, group).ok();
        let template = "greeter-operator greeter_operator GreeterSpec greeters greeter.rs example.com";
        assert_eq!(
            names.map(|names| names.render(template)).as_deref(),
            expected,
            "{name}"
        );
    }

    #[test]
    fn each_name_of_the_template_is_replaced() {
        let backup = "backup-operator backup_operator BackupSpec backups backup.rs my.org";
        check("backup-operator", None, "my.org", Some(backup));
        let box_ = "my-box my_box MyBoxSpec myboxes mybox.rs example.com";
        check("my-box", None, "example.com", Some(box_));
        let policy = "guard guard PolicySpec policies policy.rs a.b";
        check("guard", Some("Policy"), "a.b", Some(policy));
        let own = "greeter-operator greeter_operator GreeterSpec greeters greeter.rs example.com";
        check("greeter-operator", None, "example.com", Some(own));
    }

    #[test]
    fn names_that_no_project_can_have_are_rejected() {
        for (name, kind, group) in [
            ("Backup", None, "a.b"),
            ("2backup", None, "a.b"),
            ("backup-", None, "a.b"),
            ("type", None, "a.b"),
            ("backup", Some("backup"), "a.b"),
            ("backup", Some("Controller"), "a.b"),
            ("backup", None, "nodot"),
            ("backup", None, "A.b"),
        ] {
            check(name, kind, group, None);
        }
    }
}
