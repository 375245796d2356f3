//! [`TestRuntime`]: simulated containers, as a runtime that has a registry, runs hooks, and fails on request.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_container_runtime::container::Resources;
use setpoint_container_runtime::image::FileSystemUsage;
use setpoint_container_runtime::stream::ByteStream;
use setpoint_container_runtime::*;
use setpoint_node::Machine;
use setpoint_node::simulated::{SimulatedRuntime, Simulation};

/// The host whose images need a password, and the password.
pub(crate) const PRIVATE_REGISTRY: &str = "private.example";
pub(crate) const PASSWORD: &str = "right";

/// A command that never ends by itself.
pub(crate) const ENDLESS: &str = "endless";

#[derive(Debug)]
pub(crate) struct TestRuntime {
    inner: SimulatedRuntime,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    images: BTreeSet<String>,
    pulls: usize,
    commands: usize,
    /// How many of the next calls panic, or fail.
    panics: usize,
    status_panics: usize,
    list_failures: usize,
}

impl TestRuntime {
    pub(crate) fn new(machine: &Machine, clock: Arc<dyn Clock>) -> Arc<Self> {
        let machines = HashMap::from([(machine.name.clone(), machine.clone())]);
        Arc::new(Self {
            inner: SimulatedRuntime::new(Simulation::default(), Arc::new(machines), clock),
            state: Mutex::default(),
        })
    }

    /// Adds an image that was there before the agent.
    pub(crate) fn add_image(&self, name: &str) {
        self.state.lock().images.insert(name.to_owned());
    }

    /// How many images were pulled.
    pub(crate) fn pulls(&self) -> usize {
        self.state.lock().pulls
    }

    /// How many commands were started.
    pub(crate) fn commands(&self) -> usize {
        self.state.lock().commands
    }

    /// Lets the next creations of a container panic.
    pub(crate) fn panic_at_creations(&self, count: usize) {
        self.state.lock().panics = count;
    }

    /// Lets the next reports of the runtime's status panic.
    pub(crate) fn panic_at_status(&self, count: usize) {
        self.state.lock().status_panics = count;
    }

    /// Lets the next lists of sandboxes fail.
    pub(crate) fn fail_lists(&self, count: usize) {
        self.state.lock().list_failures = count;
    }
}

fn ready<'a, T: Send + 'a>(value: Result<T, Error>) -> RuntimeFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl SandboxService for TestRuntime {
    fn run_sandbox(&self, config: SandboxConfig) -> RuntimeFuture<'_, SandboxId> {
        // The agent leaves out the node of a machine that is its only one.
        let node = "node-0".to_owned();
        let pod = PodIdentity { node, ..config.pod };
        self.inner.run_sandbox(SandboxConfig { pod, ..config })
    }
    fn stop_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()> {
        self.inner.stop_sandbox(id)
    }
    fn remove_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()> {
        self.inner.remove_sandbox(id)
    }
    fn sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, Option<SandboxRecord>> {
        self.inner.sandbox(id)
    }
    fn list_sandboxes(&self) -> RuntimeFuture<'_, Vec<SandboxRecord>> {
        let mut state = self.state.lock();
        if state.list_failures > 0 {
            state.list_failures -= 1;
            return ready(Err(Error::new(ErrorKind::Other, "the runtime is restarted")));
        }
        self.inner.list_sandboxes()
    }
}

impl ContainerService for TestRuntime {
    fn create_container<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        config: ContainerConfig,
        sandbox_config: &'a SandboxConfig,
    ) -> RuntimeFuture<'a, ContainerId> {
        let mut state = self.state.lock();
        if state.panics > 0 {
            state.panics -= 1;
            drop(state);
            panic!("requested by the test");
        }
        self.inner.create_container(sandbox, config, sandbox_config)
    }
    fn start_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        self.inner.start_container(id)
    }
    fn stop_container(&self, id: &ContainerId, grace: Duration) -> RuntimeFuture<'_, ()> {
        self.inner.stop_container(id, grace)
    }
    fn remove_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        self.inner.remove_container(id)
    }
    fn container(&self, id: &ContainerId) -> RuntimeFuture<'_, Option<ContainerRecord>> {
        self.inner.container(id)
    }
    fn list_containers(&self) -> RuntimeFuture<'_, Vec<ContainerRecord>> {
        self.inner.list_containers()
    }
    fn update_container(&self, id: &ContainerId, resources: Resources) -> RuntimeFuture<'_, ()> {
        self.inner.update_container(id, resources)
    }
    fn reopen_log(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        self.inner.reopen_log(id)
    }
}

impl ImageService for TestRuntime {
    fn image(&self, reference: &str) -> RuntimeFuture<'_, Option<Image>> {
        let is_present = self.state.lock().images.contains(reference);
        ready(Ok(is_present.then(|| image(reference))))
    }
    fn pull_image<'a>(
        &'a self,
        reference: &'a str,
        credentials: Option<&'a PullCredentials>,
    ) -> RuntimeFuture<'a, String> {
        let is_allowed = credentials.is_some_and(|credentials| credentials.password == PASSWORD);
        if reference.starts_with(PRIVATE_REGISTRY) && !is_allowed {
            return ready(Err(Error::new(ErrorKind::ImagePull, "unauthorized")));
        }
        let mut state = self.state.lock();
        state.images.insert(reference.to_owned());
        state.pulls += 1;
        ready(Ok(image(reference).id))
    }
    fn list_images(&self) -> RuntimeFuture<'_, Vec<Image>> {
        let images = self.state.lock().images.clone();
        ready(Ok(images.iter().map(|name| image(name)).collect()))
    }
    fn remove_image(&self, reference: &str) -> RuntimeFuture<'_, ()> {
        self.state.lock().images.remove(reference);
        ready(Ok(()))
    }
    fn image_file_system(&self) -> RuntimeFuture<'_, FileSystemUsage> {
        self.inner.image_file_system()
    }
}

fn image(name: &str) -> Image {
    Image {
        id: format!("sha256:{name}"),
        tags: vec![name.to_owned()],
        ..Image::default()
    }
}

impl StreamService for TestRuntime {
    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: &'a [String],
        timeout: Duration,
    ) -> RuntimeFuture<'a, ExecOutput> {
        self.state.lock().commands += 1;
        match command {
            [name] if name == ENDLESS => Box::pin(std::future::pending()),
            command => self.inner.exec_sync(id, command, timeout),
        }
    }
    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        request: ExecRequest,
        streams: Streams,
    ) -> RuntimeFuture<'a, i32> {
        self.inner.exec(id, request, streams)
    }
    fn attach<'a>(&'a self, id: &'a ContainerId, tty: bool, streams: Streams) -> RuntimeFuture<'a, ()> {
        self.inner.attach(id, tty, streams)
    }
    fn port_forward<'a>(
        &'a self,
        id: &'a SandboxId,
        port: u16,
        stream: Box<dyn ByteStream>,
    ) -> RuntimeFuture<'a, ()> {
        self.inner.port_forward(id, port, stream)
    }
}

impl StatsService for TestRuntime {
    fn container_stats(&self) -> RuntimeFuture<'_, Vec<ContainerStats>> {
        self.inner.container_stats()
    }
}

impl Runtime for TestRuntime {
    fn version(&self) -> RuntimeFuture<'_, RuntimeVersion> {
        self.inner.version()
    }
    fn status(&self) -> RuntimeFuture<'_, RuntimeStatus> {
        let mut state = self.state.lock();
        if state.status_panics > 0 {
            state.status_panics -= 1;
            drop(state);
            panic!("requested by the test");
        }
        self.inner.status()
    }
    fn subscribe(&self) -> EventReceiver {
        self.inner.subscribe()
    }
}
