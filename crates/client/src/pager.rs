//! [`ListPager`]: a list in pages, as client-go's pager.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use setpoint_api::options::ListOptions;
use setpoint_api::{List, Status, Stored};

use crate::dynamic::DynamicApi;

/// The objects of a list as a stream that fetches the next page when the last one is used up.
///
/// If the continue token expires, as it may after some minutes, the whole list is fetched again without a limit and the
/// stream goes on from its position; the objects after that are newer than those before.
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
pub struct ListPager {
    resource: DynamicApi,
    options: ListOptions,
    ready: VecDeque<Arc<Stored>>,
    state: State,
    delivered: usize,
}

enum State {
    /// A page is being fetched.
    Fetching(PageFuture),
    /// The page was read; this continue token starts the next one.
    Paused(String),
    /// There are no more pages.
    Ended,
}

type PageFuture = Pin<Box<dyn Future<Output = Result<List, Status>> + Send>>;

/// The page size of upstream's clients.
const PAGE_OBJECTS: u64 = 500;

impl ListPager {
    pub(crate) fn new(resource: DynamicApi, mut options: ListOptions) -> Self {
        options.limit.get_or_insert(PAGE_OBJECTS);
        let state = State::Fetching(fetch(&resource, &options));
        Self {
            resource,
            options,
            ready: VecDeque::new(),
            state,
            delivered: 0,
        }
    }

    /// The next object; `None` at the end. An error ends the stream.
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

    fn fetch_next(&mut self, token: String) {
        self.options.continue_token = Some(token);
        self.options.resource_version = None;
        self.options.resource_version_match = None;
        self.state = State::Fetching(fetch(&self.resource, &self.options));
    }

    /// Fetches the whole list at once, without the objects delivered already.
    fn fetch_all(&mut self) {
        self.options.continue_token = None;
        self.options.limit = None;
        let (resource, options, delivered) = (self.resource.clone(), self.options.clone(), self.delivered);
        self.state = State::Fetching(Box::pin(async move {
            let mut list = resource.list(&options).await?;
            list.items.drain(..delivered.min(list.items.len()));
            Ok(list)
        }));
    }
}

impl Stream for ListPager {
    type Item = Result<Arc<Stored>, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let pages = &mut *self;
        loop {
            if let Some(object) = pages.ready.pop_front() {
                pages.delivered += 1;
                return Poll::Ready(Some(Ok(object)));
            }
            match &mut pages.state {
                State::Ended => return Poll::Ready(None),
                State::Paused(token) => {
                    let token = std::mem::take(token);
                    pages.fetch_next(token);
                }
                State::Fetching(page) => match ready!(page.as_mut().poll(cx)) {
                    Ok(page) => pages.take_page(page),
                    Err(status) if status.is_expired() && pages.options.continue_token.is_some() => {
                        pages.fetch_all();
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

impl std::fmt::Debug for ListPager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListPager")
            .field("resource", &self.resource)
            .field("delivered", &self.delivered)
            .finish_non_exhaustive()
    }
}

fn fetch(resource: &DynamicApi, options: &ListOptions) -> PageFuture {
    let (resource, options) = (resource.clone(), options.clone());
    Box::pin(async move { resource.list(&options).await })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parking_lot::Mutex;
    use setpoint_api::{Body, Gvr, Header, Key, Request, ResourceVersion, Response, ServeFuture, User, Verb};

    use super::*;
    use crate::Client;

    fn object(name: &str) -> Arc<Stored> {
        Arc::new(Stored::new(
            Header::new(Key::new("a", name)),
            Bytes::from_static(b"{}"),
            1,
        ))
    }

    /// Checks the delivered objects and the requests of a stream, for a server with this script of responses: a page `a b`
    /// with more to come or `a b.` without, `410` or `500`.
    #[track_caller]
    fn check(script: &'static [&'static str], delivered: &str, expected_requests: &str) {
        let (number, log) = (Mutex::new(0), Arc::new(Mutex::new(Vec::new())));
        let requests = log.clone();
        let serve = move |request: Request| -> ServeFuture<'static> {
            let Verb::List(options) = request.verb else {
                panic!("a stream of pages only lists");
            };
            let limit = options.limit.map_or("all".to_owned(), |limit| limit.to_string());
            let token = options.continue_token.unwrap_or_default();
            requests.lock().push(format!("{limit}{token}"));
            let mut number = number.lock();
            *number += 1;
            let response = match script[*number - 1] {
                "410" => Err(Status::expired("gone")),
                "500" => Err(Status::internal("broken")),
                page => Ok(Response::new(Body::List(List {
                    items: page
                        .trim_end_matches('.')
                        .split_whitespace()
                        .map(object)
                        .collect(),
                    resource_version: ResourceVersion(7),
                    continue_token: (!page.ends_with('.')).then(|| format!("@{number}")),
                    remaining_item_count: None,
                }))),
            };
            Box::pin(std::future::ready(response))
        };
        let client = Client::new(Arc::new(serve), Arc::new(User::anonymous()));
        let options = ListOptions {
            limit: Some(2),
            ..ListOptions::default()
        };
        let mut pages = ListPager::new(client.dynamic(Gvr::new("", "v1", "pods"), "a"), options);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut delivered_names = Vec::new();
        while let Some(next) = runtime.block_on(pages.next()) {
            delivered_names.push(next.map_or_else(
                |status| status.code.to_string(),
                |object| object.key().name().to_owned(),
            ));
        }
        assert_eq!(
            (delivered_names.join(" ").as_str(), log.lock().join(" ").as_str()),
            (delivered, expected_requests)
        );
    }

    #[test]
    fn the_pages_of_a_list_are_one_stream() {
        check(&["a b", "c d", "e."], "a b c d e", "2 2@1 2@2");
        check(&["."], "", "2");
    }

    #[test]
    fn after_an_expired_token_the_rest_is_read_from_a_new_list() {
        check(&["a b", "410", "a b c d."], "a b c d", "2 2@1 all");
    }

    #[test]
    fn an_error_ends_the_stream() {
        check(&["a b", "500"], "a b 500", "2 2@1");
        check(&["410"], "410", "2");
    }
}
