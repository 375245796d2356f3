//! Tokens from a file: token, user, uid and maybe groups, a line each.

use std::collections::HashMap;
use std::sync::Arc;

use ring::digest;
use setpoint_api::User;

use super::bearer::{Tokens, for_server};
use super::{Known, Unauthenticated};

/// The tokens of a file, by their digest: looking one up tells nothing about the others.
#[derive(Debug, Default)]
pub struct TokenFile {
    audiences: Vec<String>,
    users: HashMap<Vec<u8>, Arc<User>>,
}

/// A line of the file is no good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    #[error(
        "token file must have at least 3 columns (token, user name, user uid), found {found} in line {line}"
    )]
    Columns { line: usize, found: usize },
    #[error("token file has an open quote in line {line}")]
    Quote { line: usize },
}

impl TokenFile {
    /// Reads the text of a file. The audiences are the server's.
    pub fn parse(text: &str, audiences: Vec<String>) -> Result<Self, BadLine> {
        let mut users = HashMap::new();
        for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.is_empty()) {
            let line = at + 1;
            let columns = columns(text).ok_or(BadLine::Quote { line })?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                let found = columns.len();
                return Err(BadLine::Columns { line, found });
            };
            if token.is_empty() {
                tracing::warn!(line, "empty token in the token file");
                continue;
            }
            let groups: Vec<&str> = rest
                .first()
                .map(|groups| groups.split(',').collect())
                .unwrap_or_default();
            let mut user = User::new(name, &groups);
            user.uid.clone_from(uid);
            if users.insert(digest_of(token), Arc::new(user)).is_some() {
                tracing::warn!(line, "duplicate token in the token file");
            }
        }
        Ok(Self { audiences, users })
    }
}

impl Tokens for TokenFile {
    fn find(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, Unauthenticated> {
        let Some(audiences) = for_server(&self.audiences, audiences) else {
            return Ok(None);
        };
        let user = self.users.get(&digest_of(token)).cloned();
        Ok(user.map(|user| Known { user, audiences }))
    }
}

fn digest_of(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes())
        .as_ref()
        .to_vec()
}

/// The columns of a line; one in quotes may hold commas, and doubled quotes for one. `None` if a quote stays open.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let column = columns.last_mut().expect("there is always one");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c => column.push(c),
        }
    }
    (!quoted).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "t1,alice,u1\nt2,bob,u2,\"devs,ops\"\n\nt3,carol,u3,admins\n";

    fn file(text: &str) -> Result<TokenFile, BadLine> {
        TokenFile::parse(text, vec!["here".to_owned()])
    }

    #[track_caller]
    fn check(token: &str, audience: &str, expected: Option<(&str, &[&str])>) {
        let found = file(FILE).unwrap().find(token, &[audience.to_owned()]).unwrap();
        let found = found.map(|known| (known.user.name.clone(), known.user.groups.clone()));
        let expected = expected.map(|(name, groups)| (name.to_owned(), User::new("", groups).groups));
        assert_eq!(found, expected);
    }

    #[test]
    fn each_line_is_a_token_with_its_user() {
        check("t1", "here", Some(("alice", &[])));
        check("t2", "here", Some(("bob", &["devs", "ops"])));
        check("t3", "here", Some(("carol", &["admins"])));
        check("t4", "here", None);
        check("", "here", None);
    }

    #[test]
    fn a_token_of_the_file_is_for_this_server_only() {
        check("t1", "elsewhere", None);
    }

    #[test]
    fn lines_with_too_little_are_refused() {
        assert_eq!(
            file("t1,alice").unwrap_err(),
            BadLine::Columns { line: 1, found: 2 }
        );
        assert_eq!(file("a,b,c\nt1,\"alice").unwrap_err(), BadLine::Quote { line: 2 });
    }
}
