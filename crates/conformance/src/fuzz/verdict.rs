//! What must never happen, and what Kubernetes itself does.

use std::io;

use super::shot::{Manner, Shot};
use crate::wire::Answer;

/// Something that must not happen, and the request that made it happen.
#[derive(Debug)]
pub struct Finding {
    pub number: u64,
    pub request: String,
    pub what: String,
}

/// Failures of the server that Kubernetes answers with, too: status and a part of the message.
const AS_KUBERNETES: &[(u16, &str)] = &[
    (500, "resourceVersion should not be set on objects to be created"),
    (500, "strconv.ParseUint"),
    (500, "failed to create typed patch object"),
    (500, "failed to create typed live object"),
    (500, "list element types are not identical"),
    (500, "does not contain declared merge key"),
    (500, "unknown patch type"),
    (500, "unable to find api field in struct RawExtension"),
    (500, "doesn't match $setElementOrder list"),
    (500, "target.kind: Unsupported value"),
    (500, "target.name: Required value"),
    (500, "target.name: Invalid value"),
    (504, "Too large resource version"),
    (504, "Timeout"),
    (501, ""),
    (503, "no endpoints available"),
    (503, "error trying to reach service"),
];

/// Subresources that lead to another machine, where there may be none.
const ELSEWHERE: &[&str] = &["/log", "/exec", "/attach", "/portforward", "/proxy"];

const SHOWN: usize = 300;

/// What is wrong with an answer, if anything.
pub(super) fn judge(number: u64, shot: &Shot, result: &io::Result<Answer>) -> Option<Finding> {
    let what = match result {
        Ok(answer) if answer.status >= 500 && !is_expected(shot, answer) => {
            format!("{} {}", answer.status, shortened(&answer.text()))
        }
        Ok(_) => return None,
        // A watch says nothing until something happens; broken framing may be met by closing the line.
        Err(_) if shot.is_watch() || !must_be_answered(shot) => return None,
        // A server may answer and close while a body that it refuses is still coming.
        Err(error) if matches!(shot.manner, Manner::Pieces(_)) && is_closed(error) => return None,
        Err(error) => format!("no answer: {error}"),
    };
    Some(Finding {
        number,
        request: format!(
            "{} {} ({:?})",
            shot.request.method, shot.request.path, shot.manner
        ),
        what,
    })
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn must_be_answered(shot: &Shot) -> bool {
    matches!(shot.manner, Manner::Whole | Manner::Pieces(_) | Manner::Chunked)
}

fn is_expected(shot: &Shot, answer: &Answer) -> bool {
    let text = answer.text();
    let path = shot.request.path.split('?').next().unwrap_or_default();
    ELSEWHERE.iter().any(|ending| path.ends_with(ending))
        || AS_KUBERNETES
            .iter()
            .any(|(status, part)| *status == answer.status && text.contains(part))
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    #[track_caller]
    fn check(manner: Manner, result: io::Result<(u16, &str)>, is_finding: bool) {
        let shot = Shot {
            request: Request::new("POST", "/api/v1/pods"),
            manner,
        };
        let result = result.map(|(status, text)| Answer {
            status,
            body: text.as_bytes().to_vec(),
            ..Answer::default()
        });
        assert_eq!(judge(1, &shot, &result).is_some(), is_finding);
    }

    #[test]
    fn a_failure_of_the_server_is_a_finding_unless_kubernetes_fails_so_too() {
        check(Manner::Whole, Ok((500, "oh no")), true);
        check(Manner::Whole, Ok((500, "strconv.ParseUint: parsing")), false);
        check(Manner::Whole, Ok((422, "oh no")), false);
    }

    #[test]
    fn silence_is_a_finding_where_the_request_was_whole() {
        let silence = || Err(io::ErrorKind::UnexpectedEof.into());
        check(Manner::Whole, silence(), true);
        check(Manner::Pieces(2), silence(), true);
        check(Manner::BadChunks, silence(), false);
        check(Manner::Pieces(2), Err(io::ErrorKind::BrokenPipe.into()), false);
    }
}
