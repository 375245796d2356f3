//! Static tokens from a CSV file (`--token-auth-file`): token, user, UID and optional groups per line.

use std::collections::HashMap;
use std::sync::Arc;

use ring::digest;
use setpoint_api::User;

use super::bearer::{TokenAuthenticator, server_audiences};
use super::{AuthenticationError, TokenIdentity};

/// The tokens of a file, by their digest, so that lookup time reveals nothing about them.
#[derive(Debug, Default)]
pub struct TokenFile {
    audiences: Vec<String>,
    users: HashMap<Vec<u8>, Arc<User>>,
}

/// An invalid line of the token file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    #[error(
        "token file must have at least 3 columns (token, user name, user uid), found {found} in line {line}"
    )]
    Columns { line: usize, found: usize },
    #[error("token file has an open quote in line {line}")]
    Quote { line: usize },
}

impl TokenFile {
    /// Parses the text of a file. The audiences are the server's.
    pub fn parse(text: &str, audiences: Vec<String>) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.is_empty()) {
            let line = at + 1;
            let columns = columns(text).ok_or(TokenFileError::Quote { line })?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                let found = columns.len();
                return Err(TokenFileError::Columns { line, found });
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

impl TokenAuthenticator for TokenFile {
    fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenIdentity>, AuthenticationError> {
        let Some(audiences) = server_audiences(&self.audiences, audiences) else {
            return Ok(None);
        };
        let user = self.users.get(&digest_of(token)).cloned();
        Ok(user.map(|user| TokenIdentity { user, audiences }))
    }
}

fn digest_of(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes())
        .as_ref()
        .to_vec()
}

/// The columns of a line; a quoted one may have commas, and doubled quotes. `None` if a quote is not closed.
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

    fn file(text: &str) -> Result<TokenFile, TokenFileError> {
        TokenFile::parse(text, vec!["here".to_owned()])
    }

    #[track_caller]
    fn check(token: &str, audience: &str, expected: Option<(&str, &[&str])>) {
        let found = file(FILE)
            .unwrap()
            .authenticate_token(token, &[audience.to_owned()])
            .unwrap();
        let found = found.map(|identity| (identity.user.name.clone(), identity.user.groups.clone()));
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
    fn lines_with_too_few_columns_are_rejected() {
        assert_eq!(
            file("t1,alice").unwrap_err(),
            TokenFileError::Columns { line: 1, found: 2 }
        );
        assert_eq!(
            file("a,b,c\nt1,\"alice").unwrap_err(),
            TokenFileError::Quote { line: 2 }
        );
    }
}
