//! The order in which a request passes the filters, one per line.

use std::sync::{Arc, OnceLock};

use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use setpoint_api::User;
use setpoint_kinds::{Kind, Kinds};

use crate::aggregate::passing;
use crate::body::Body;
use crate::filters::fair::{Admitted, Rejected, flows};
use crate::filters::record::Following;
use crate::filters::{audit, authenticate, authorize, impersonate, limit, panic};
use crate::made::Served;
use crate::metrics::Labels;
use crate::request::options::Refused;
use crate::request::query::Query;
use crate::request::{self, Asked, Place, deadline};
use crate::serve::Shared;
use crate::tls::Peer;
use crate::{handler, negotiate, paths, respond, zip};

/// Answers one request, whatever comes of it.
pub(crate) async fn answer(shared: &Shared, peer: &Peer, request: Request<Incoming>) -> Response<Body> {
    let id = shared.ids.of(request.headers());
    let begun = shared.clock.now();
    let (head, body) = request.into_parts();
    let mut body = Some(body);
    let query = Query::parse(head.uri.query());
    let asked = request::parse(&head.method, head.uri.path(), &query);
    let kinds = (shared.kinds)();
    let exchange = Exchange {
        shared,
        kinds: &kinds,
        peer,
        head: &head,
        query: &query,
        asked: &asked,
        id: &id,
        flow: OnceLock::new(),
        record: Following::default(),
    };
    let _in_flight = shared.metrics.enter(is_mutating(&head.method));
    let told = panic::guard(exchange.pass(&mut body)).await;
    if let Some(unread) = &mut body {
        limit::drain(unread).await;
    }
    let mut response = told.unwrap_or_else(|status| {
        exchange.record.note(|record| record.failed(&status));
        respond::failure(negotiate::failure(&head.headers, &query), &status)
    });
    exchange.count(&response, begun);
    exchange.warn_of_age(&mut response);
    zip::shorten(&head.headers, &mut response);
    exchange.mark_flow(&mut response).await;
    exchange.record.end(&exchange, &mut response).await;
    audit::mark(&mut response, id.clone());
    response
}

/// A request on its way through the chain.
pub(crate) struct Exchange<'a> {
    pub shared: &'a Shared,
    /// The kinds as they are now; they stay the same for the request.
    pub kinds: &'a Arc<Kinds>,
    pub peer: &'a Peer,
    pub head: &'a http::request::Parts,
    pub query: &'a Query<'a>,
    pub asked: &'a Asked<'a>,
    /// What the answer's `Audit-Id` says.
    pub id: &'a HeaderValue,
    /// What the audit log is told.
    pub record: Following,
    /// The flow schema the request belongs to, once its user is known.
    flow: OnceLock<usize>,
}

impl Exchange<'_> {
    async fn pass(&self, body: &mut Option<Incoming>) -> Result<Response<Body>, Refused> {
        if !self.asked.is_long_running() {
            deadline::read(self.query)?;
        }
        let user = authenticate::user(&*self.shared.authenticate, self.peer, &self.head.headers);
        self.shared.metrics.known.count(user.is_ok());
        if let Err(refused) = &user {
            self.record.refuse(self, refused).await;
        }
        let caller = user?;
        self.record.begin(self, &caller).await;
        let user = self.acting_as(caller)?;
        let Ok(seat) = self.admit(&user).await else {
            return Ok(respond::too_many_requests());
        };
        let decision = self.shared.authorize.authorize(&user, &self.asked.attributes());
        self.record.note(|record| record.decided(&decision));
        let allowed = authorize::check(&user, self.asked, &decision);
        self.shared.metrics.allowed.count(allowed.is_ok());
        allowed?;
        if let Some(other) = self.shared.aggregate.find(self.asked) {
            // The other server looks after its own seats.
            drop(seat);
            return passing::answer(self, &other, &user, body).await;
        }
        match &self.asked.place {
            Place::Resource(address) => handler::answer(self, address, user, body).await,
            Place::Path(path) => paths::answer(self, path).await,
        }
    }

    /// The user the request is carried out for: the caller, or whom it wants to be.
    fn acting_as(&self, caller: Arc<User>) -> Result<Arc<User>, Refused> {
        let (authorize, headers) = (&*self.shared.authorize, &self.head.headers);
        match impersonate::user(authorize, &caller, headers, self.asked)? {
            None => Ok(caller),
            Some(wanted) => {
                self.record.note(|record| record.impersonated(&wanted));
                Ok(Arc::new(wanted.user))
            }
        }
    }

    /// Waits until the request may be carried out. What goes on and on has no seat: it would never give it up.
    async fn admit(&self, user: &User) -> Result<Option<Admitted>, Rejected> {
        let flow = flows::find(user, &self.asked.attributes());
        let schema = *self.flow.get_or_init(|| flow.schema);
        debug_assert_eq!(schema, flow.schema, "a request is admitted once");
        if self.asked.is_long_running() {
            return Ok(None);
        }
        let (fairness, clock) = (&self.shared.fairness, &*self.shared.clock);
        fairness.admit(&flow, clock).await.map(Some)
    }

    /// Kinds that nobody should use any more say so on every answer.
    fn warn_of_age(&self, response: &mut Response<Body>) {
        let deprecation = self.kind().and_then(|kind| kind.about().deprecation.clone());
        // Where no kind's own function was reached, nobody has looked at its age.
        let reached = !matches!(
            response.status(),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_ACCEPTABLE
        );
        if let Some(deprecation) = deprecation.filter(|_| reached) {
            respond::warn_first(response, &deprecation);
        }
    }

    async fn mark_flow(&self, response: &mut Response<Body>) {
        if let Some(schema) = self.flow.get() {
            self.shared.marks.mark(self.shared, *schema, response).await;
        }
    }

    fn count(&self, response: &Response<Body>, begun: jiff::Timestamp) {
        let took = self.shared.clock.now().duration_since(begun).unsigned_abs();
        let kind = self.kind();
        let labels = Labels {
            code: response.status().as_u16(),
            dry_run: self.query.find("dryRun").is_some(),
            ..self.labels(kind)
        };
        self.shared
            .metrics
            .answered(labels, kind, took, response.body().length());
    }

    /// What is served now, by this server and by others.
    pub(crate) fn served(&self) -> Served {
        Served {
            kinds: self.kinds.clone(),
            others: self.shared.aggregate.others(),
        }
    }

    fn kind(&self) -> Option<&Arc<dyn Kind>> {
        match &self.asked.place {
            Place::Resource(address) => self.kinds.find(&address.target.resource),
            Place::Path(_) => None,
        }
    }

    fn labels(&self, kind: Option<&Arc<dyn Kind>>) -> Labels {
        let labels = Labels::new(verb_label(self.asked.verb), kind);
        let (Place::Resource(address), Some(kind)) = (&self.asked.place, kind) else {
            return labels;
        };
        let target = &address.target;
        let scope = match (&target.name, &target.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        let subresource = target
            .subresource
            .as_deref()
            .and_then(|name| kind.about().find_subresource(name));
        Labels {
            scope,
            subresource: subresource.map_or("", |found| found.name),
            ..labels
        }
    }
}

fn is_mutating(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A verb as metrics spell it.
fn verb_label(verb: &str) -> &'static str {
    match verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}
