//! A long list, page by page.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use setpoint_api::options::ListOptions;
use setpoint_api::{List, Status, Stored};

use crate::dynamic::Dynamic;

/// The objects of a list as a stream that asks for the next page when the last is used up.
///
/// If the rest is gone before it is read, as it may be after some minutes, the whole list is asked for once more and
/// told from where the stream had come to; the objects after that are newer than those before.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let client = cluster.client("me");
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_api::options::ListOptions;
///
/// let maps = client.namespaced::<ConfigMap>("default");
/// for name in ["a", "b", "c"] {
///     maps.create(&setpoint_testkit::config_map(name, "k", "v")).await?;
/// }
/// let two_at_a_time = ListOptions { limit: Some(2), ..ListOptions::default() };
/// let (mut pages, mut names) = (maps.dynamic().pages(two_at_a_time), Vec::new());
/// while let Some(map) = pages.next().await {
///     names.push(map?.key().name().to_owned());
/// }
/// assert_eq!(names, ["a", "b", "c"]);
/// # Ok(())
/// # }
/// ```
pub struct Pages {
    resource: Dynamic,
    options: ListOptions,
    ready: VecDeque<Arc<Stored>>,
    state: State,
    told: usize,
}

enum State {
    /// This page is being asked for.
    Asking(Asked),
    /// The page that was read says where the next starts.
    Paused(String),
    /// There is no more.
    Ended,
}

type Asked = Pin<Box<dyn Future<Output = Result<List, Status>> + Send>>;

/// What upstream's own clients ask for at a time.
const PAGE_OBJECTS: u64 = 500;

impl Pages {
    pub(crate) fn new(resource: Dynamic, mut options: ListOptions) -> Self {
        options.limit.get_or_insert(PAGE_OBJECTS);
        let state = State::Asking(ask(&resource, &options));
        Self {
            resource,
            options,
            ready: VecDeque::new(),
            state,
            told: 0,
        }
    }

    /// The next object; `None` at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<Arc<Stored>, Status>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn take_page(&mut self, page: List) {
        self.state = match page.continue_token {
            Some(token) => State::Paused(token),
            None => State::Ended,
        };
        self.ready.extend(page.items);
    }

    fn turn_page(&mut self, token: String) {
        self.options.continue_token = Some(token);
        self.options.resource_version = None;
        self.options.version_match = None;
        self.state = State::Asking(ask(&self.resource, &self.options));
    }

    /// The whole list at once, without what was told already.
    fn start_over(&mut self) {
        self.options.continue_token = None;
        self.options.limit = None;
        let (resource, options, told) = (self.resource.clone(), self.options.clone(), self.told);
        self.state = State::Asking(Box::pin(async move {
            let mut list = resource.list(&options).await?;
            list.items.drain(..told.min(list.items.len()));
            Ok(list)
        }));
    }
}

impl Stream for Pages {
    type Item = Result<Arc<Stored>, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let pages = &mut *self;
        loop {
            if let Some(object) = pages.ready.pop_front() {
                pages.told += 1;
                return Poll::Ready(Some(Ok(object)));
            }
            match &mut pages.state {
                State::Ended => return Poll::Ready(None),
                State::Paused(token) => {
                    let token = std::mem::take(token);
                    pages.turn_page(token);
                }
                State::Asking(asked) => match ready!(asked.as_mut().poll(cx)) {
                    Ok(page) => pages.take_page(page),
                    Err(status) if status.is_expired() && pages.options.continue_token.is_some() => {
                        pages.start_over();
                    }
                    Err(status) => {
                        pages.state = State::Ended;
                        return Poll::Ready(Some(Err(status)));
                    }
                },
            }
        }
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages")
            .field("resource", &self.resource)
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

fn ask(resource: &Dynamic, options: &ListOptions) -> Asked {
    let (resource, options) = (resource.clone(), options.clone());
    Box::pin(async move { resource.list(&options).await })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parking_lot::Mutex;
    use setpoint_api::{Body, Gvr, Header, Key, Reply, Request, ResourceVersion, Response, User, Verb};

    use super::*;
    use crate::Client;

    fn object(name: &str) -> Arc<Stored> {
        Arc::new(Stored::new(
            Header::new(Key::new("a", name)),
            Bytes::from_static(b"{}"),
            1,
        ))
    }

    /// What a stream tells of a server that gives these answers: a page `a b` with more to come or `a b.` without, `410`
    /// or `500`. And what it was asked.
    #[track_caller]
    fn check(answers: &'static [&'static str], told: &str, asked: &str) {
        let (number, log) = (Mutex::new(0), Arc::new(Mutex::new(Vec::new())));
        let requests = log.clone();
        let serve = move |request: Request| -> Reply<'static> {
            let Verb::List(options) = request.verb else {
                panic!("a stream of pages only lists");
            };
            let limit = options.limit.map_or("all".to_owned(), |limit| limit.to_string());
            let token = options.continue_token.unwrap_or_default();
            requests.lock().push(format!("{limit}{token}"));
            let mut number = number.lock();
            *number += 1;
            let answer = match answers[*number - 1] {
                "410" => Err(Status::expired("gone")),
                "500" => Err(Status::internal("broken")),
                page => Ok(Response::of(Body::List(List {
                    items: page
                        .trim_end_matches('.')
                        .split_whitespace()
                        .map(object)
                        .collect(),
                    resource_version: ResourceVersion(7),
                    continue_token: (!page.ends_with('.')).then(|| format!("@{number}")),
                    remaining: None,
                }))),
            };
            Box::pin(std::future::ready(answer))
        };
        let client = Client::new(Arc::new(serve), Arc::new(User::anonymous()));
        let options = ListOptions {
            limit: Some(2),
            ..ListOptions::default()
        };
        let mut pages = Pages::new(client.dynamic(Gvr::new("", "v1", "pods"), "a"), options);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut names = Vec::new();
        while let Some(next) = runtime.block_on(pages.next()) {
            names.push(next.map_or_else(
                |status| status.code.to_string(),
                |object| object.key().name().to_owned(),
            ));
        }
        assert_eq!(
            (names.join(" ").as_str(), log.lock().join(" ").as_str()),
            (told, asked)
        );
    }

    #[test]
    fn the_pages_of_a_list_are_one_stream() {
        check(&["a b", "c d", "e."], "a b c d e", "2 2@1 2@2");
        check(&["."], "", "2");
    }

    #[test]
    fn a_rest_that_is_gone_is_read_from_a_new_list() {
        check(&["a b", "410", "a b c d."], "a b c d", "2 2@1 all");
    }

    #[test]
    fn an_error_ends_the_stream() {
        check(&["a b", "500"], "a b 500", "2 2@1");
        check(&["410"], "410", "2");
    }
}
