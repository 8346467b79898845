# SPDX-License-Identifier: Apache-2.0
"""Shared code of the grid testbed (grid-up, grid-down, grid-check, ...).

Everything lives in network namespaces named GRID.NODE (GRID defaults to
"grid", environment variable GRID_NAME); state lives in /tmp/grid-state/GRID.
The 'wan' namespace is a plain layer-2 bridge with no address and no link to
the machine's own network, so nothing can leave the testbed.
"""
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

NAME = os.environ.get('GRID_NAME', 'grid')
STATE = os.environ.get('GRID_STATE', '/tmp/grid-state/' + NAME)
HERE = os.path.dirname(os.path.abspath(__file__))
NETNS = '/run/netns'
CLASSES = ('global', 'firewall', 'nat', 'blocked')
DEFAULT = [('chiba', 'global'), ('hongo', 'global'), ('okubo', 'global'),
           ('suzuk', 'global'), ('kototoi', 'firewall'), ('kyoto', 'nat'),
           ('imade', 'nat'), ('istbs', 'blocked'), ('tsubame', 'blocked')]
NAT_NET = '192.168.0'
SINK = '02:77:00:00:00:fe'                    # the wan bridge itself: swallows what has no route
# nothing with a private source may cross the wan (a leak in a NAT gateway): count and drop
WAN_RULES = '''table bridge gridwan {
 chain pre { type filter hook prerouting priority 0; policy accept;
  ip saddr { 192.168.0.0/16, 127.0.0.0/8 } counter drop comment "leak" ; }
}
'''


class GridError(Exception):
    pass


# ---------------------------------------------------------------- plan ----
def parse_spec(spec):
    """SPEC -> list of cluster dicts.  SPEC is empty, a number (hosts in each
    of the 9 default clusters), a file, or 'name:class:hosts[:k=v...],...'."""
    rows, opts = [], {}
    if not spec:
        spec = '2'
    if spec.isdigit():
        rows = [(n, c, int(spec), {}) for n, c in DEFAULT]
    else:
        if os.path.exists(spec):
            with open(spec) as f:
                lines = [ln.split('#')[0].split() for ln in f]
        else:
            lines = [x.replace(':', ' ').split() for x in spec.split(',')]
        for w in lines:
            if not w:
                continue
            kv = dict(x.split('=', 1) for x in w if '=' in x)
            pos = [x for x in w if '=' not in x]
            if not pos:                      # a line of options only
                opts.update(kv)
                continue
            default_class = dict(DEFAULT).get(pos[0])
            cls = pos[1] if len(pos) > 1 else default_class
            n = int(pos[2]) if len(pos) > 2 else 2
            rows.append((pos[0], cls, n, kv))
    return rows, opts


def make_plan(spec):
    rows, opts = parse_spec(spec)
    plan = {'clusters': {}, 'nodes': {}, 'sshd': os.environ.get('GRID_SSHD') or opts.get('sshd', 'min'),
            'ssh_from': opts.get('ssh_from')}
    if len(rows) > 250:
        raise GridError('at most 250 clusters')
    for i, (name, cls, n, kv) in enumerate(rows, 1):
        if cls not in CLASSES:
            raise GridError('%s: class %r is not one of %s' % (name, cls, ', '.join(CLASSES)))
        if not name.isalpha() or len(name) > 12 or name in plan['clusters'] or name == 'wan':
            raise GridError('bad or double cluster name %r (letters only, at most 12)' % name)
        if not 1 <= n <= 250:
            raise GridError('%s: 1 to 250 hosts' % name)
        bad = set(kv) - {'deny', 'ssh'}
        if bad:
            raise GridError('%s: unknown option %s' % (name, ', '.join(bad)))
        if kv.get('deny', 'drop') not in ('drop', 'reject') or kv.get('ssh', 'in') not in ('in', 'out', 'both'):
            raise GridError('%s: deny=drop|reject, ssh=in|out|both' % name)
        net = NAT_NET if cls == 'nat' else '10.77.%d' % i
        c = {'name': name, 'index': i, 'class': cls, 'hosts': [], 'net': net + '.0/24',
             'gw': name + '-gw', 'lan': net + '.254', 'wan': '10.77.0.%d' % i,
             'public': ['10.77.0.%d' % i] + ([] if cls == 'nat' else [net + '.0/24']),
             'deny': kv.get('deny', 'drop'), 'ssh': kv.get('ssh', 'in')}
        plan['clusters'][name] = c
        for h in range(n):
            node = '%s%d' % (name, h)
            c['hosts'].append(node)
            plan['nodes'][node] = {'cluster': name, 'ip': '%s.%d' % (net, h + 1), 'port': 'h%d' % h}
        plan['nodes'][c['gw']] = {'cluster': name, 'ip': c['lan'], 'gw': True}
    if any(c['class'] == 'blocked' for c in plan['clusters'].values()):
        if not plan['ssh_from']:
            first = [c for c in plan['clusters'].values() if c['class'] == 'global']
            pick = plan['clusters'].get('hongo') or (first[0] if first else None)
            plan['ssh_from'] = pick['hosts'][0] if pick else None
        if plan['ssh_from'] not in plan['nodes']:
            raise GridError('blocked clusters need ssh_from=HOST')
    plan['id'] = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:16]
    return plan


def load_plan():
    try:
        with open(STATE + '/plan.json') as f:
            return json.load(f)
    except FileNotFoundError:
        raise GridError('grid %r is not up (no %s/plan.json)' % (NAME, STATE))


def load(name, default):
    try:
        with open('%s/%s.json' % (STATE, name)) as f:
            return json.load(f)
    except FileNotFoundError:
        return default


def save(name, value):
    tmp = '%s/.%s.tmp' % (STATE, name)
    with open(tmp, 'w') as f:
        json.dump(value, f, indent=1)
    os.rename(tmp, '%s/%s.json' % (STATE, name))


def is_at(f, path):
    try:
        return os.path.samestat(os.fstat(f.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked(last=False):
    """last: nothing is left to lock afterwards. Who has waited for a file that was removed meanwhile locks nothing."""
    path = STATE + '.lock'
    os.makedirs(os.path.dirname(STATE) or '/', exist_ok=True)
    while True:
        with open(path, 'w') as f:
            os.set_inheritable(f.fileno(), False)
            fcntl.flock(f, fcntl.LOCK_EX)
            if not is_at(f, path):
                continue
            yield
            if last:
                os.unlink(path)
            return


# ---------------------------------------------------------- namespaces ----
_libc = ctypes.CDLL(None, use_errno=True)


def nspath(node):
    return '%s/%s.%s' % (NETNS, NAME, node)


def _setns(fd):
    if _libc.setns(fd, 0x40000000):           # CLONE_NEWNET
        e = ctypes.get_errno()
        raise OSError(e, 'setns: ' + os.strerror(e))


@contextlib.contextmanager
def ns(node):
    """Run a block with this thread inside the namespace of NODE.  Sockets made
    there stay there; children started there live there."""
    back = os.open('/proc/thread-self/ns/net', os.O_RDONLY)
    try:
        try:
            fd = os.open(nspath(node), os.O_RDONLY)
        except FileNotFoundError:
            raise GridError('no namespace for %r' % node)
        try:
            _setns(fd)
        finally:
            os.close(fd)
        try:
            yield
        finally:
            _setns(back)
    finally:
        os.close(back)


def sh(argv, stdin=None, check=True):
    p = subprocess.run(argv, input=stdin, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if check and p.returncode:
        raise GridError('%s: %s' % (' '.join(argv)[:200], (p.stderr or p.stdout).strip()[:800]))
    return p


def ip_batch(lines, force=False):
    return sh(['ip'] + (['-force'] if force else []) + ['-batch', '-'], '\n'.join(lines) + '\n', check=not force)


def sysctl(key, value, must=True):
    try:
        with open('/proc/sys/' + key, 'w') as f:
            f.write(str(value))
    except OSError:
        if must:
            raise


def our_namespaces():
    try:
        return sorted(x for x in os.listdir(NETNS) if x.startswith(NAME + '.'))
    except FileNotFoundError:
        return []


def our_processes():
    """{pid: namespace} of every process inside one of our namespaces."""
    ino = {}
    for x in our_namespaces():
        try:
            st = os.stat('%s/%s' % (NETNS, x))
            ino[(st.st_dev, st.st_ino)] = x
        except OSError:
            pass
    out = {}
    for d in os.listdir('/proc'):
        if d.isdigit() and int(d) != os.getpid():
            try:
                st = os.stat('/proc/%s/ns/net' % d)
            except OSError:
                continue
            if (st.st_dev, st.st_ino) in ino:
                out[int(d)] = ino[(st.st_dev, st.st_ino)]
    return out


def kill_pids(pids, grace=2.0):
    pids = list(pids)
    for sig in (signal.SIGTERM, signal.SIGKILL):
        for p in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, sig)
        end = time.time() + grace
        while pids and time.time() < end:
            pids = [p for p in pids if _alive(p)]
            if pids:
                time.sleep(0.01)
        if not pids:
            return
    if pids:
        raise GridError('still running: %s' % pids)


def _alive(pid):
    try:
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


# -------------------------------------------------------------- firewall --
def gw_rules(plan, c):
    """The nft ruleset of a cluster's gateway."""
    deny = 'drop' if c['deny'] == 'drop' else 'goto deny'
    out = ['table inet grid {',
           ' chain deny { meta l4proto tcp reject with tcp reset; reject with icmpx admin-prohibited; }']
    cls = c['class']
    if cls == 'global':
        return ''
    inp, fwd, outp = [], [], []
    est = 'ct state established,related accept'
    inp += ['iifname != "wan" accept', 'ct state invalid drop', est]
    fwd += ['ct state invalid drop', est]
    if cls in ('firewall', 'nat'):
        fwd += ['iifname "lan" oifname "wan" accept']
        outp = None
    else:
        frm = plan['nodes'][plan['ssh_from']]['ip']
        outp = ['oifname != "wan" accept', est]
        if c['ssh'] in ('in', 'both'):
            inp += ['ip saddr %s tcp dport 22 accept' % frm]
        if c['ssh'] in ('out', 'both'):
            outp += ['ip daddr %s tcp dport 22 accept' % frm]
    for hook, rules in (('input', inp), ('forward', fwd), ('output', outp)):
        if rules is not None:
            out += [' chain %s { type filter hook %s priority filter; policy accept;' % (hook, hook)]
            out += ['  %s;' % r for r in rules] + ['  counter %s;' % deny, ' }']
    if cls == 'nat':
        out += [' chain nat { type nat hook postrouting priority srcnat; policy accept;',
                '  oifname "wan" ip saddr %s masquerade;' % c['net'], ' }']
    out += ['}']
    return '\n'.join(out) + '\n'


# ------------------------------------------------- faults and WAN shaping --
def targets(plan, who):
    """(cluster, [prefixes seen on the wan]) of a cluster or host name."""
    if who in plan['clusters']:
        c = plan['clusters'][who]
        return c, c['public']
    if who in plan['nodes']:
        n = plan['nodes'][who]
        c = plan['clusters'][n['cluster']]
        if n.get('gw'):
            return c, [c['wan']]
        if c['class'] == 'nat':
            raise GridError('%s is behind NAT: the wan sees only %s; name the cluster' % (who, c['wan']))
        return c, [n['ip']]
    raise GridError('no cluster or host %r' % who)


def apply_cuts(plan):
    """Install all cuts (state 'cuts': [src, dst, mode]) as nft netdev ingress
    rules on the wan's bridge ports, in one transaction."""
    rules = {}
    for src, dst, mode in load('cuts', []):
        (c, sp), (_, dp) = targets(plan, src), targets(plan, dst)
        m = 'ip saddr { %s } ip daddr { %s }' % (', '.join(sp), ', '.join(dp))
        r = rules.setdefault(c['name'], [])
        if mode == 'rst':
            r.append(m + ' meta l4proto tcp counter reject with tcp reset')
        r.append(m + ' counter drop')
    txt = ['add table netdev gridcut', 'delete table netdev gridcut']
    if rules:
        txt += ['table netdev gridcut {']
        for name, rs in rules.items():
            txt += [' chain c_%s { type filter hook ingress device "p-%s" priority 0; policy accept;' % (name, name)]
            txt += ['  %s;' % r for r in rs] + [' }']
        txt += ['}']
    with ns('wan'):
        sh(['nft', '-f', '-'], '\n'.join(txt) + '\n')


def apply_links(plan):
    down = set(load('links', []))
    for cl in plan['clusters'].values():
        with ns('wan'):
            sh(['ip', 'link', 'set', 'p-' + cl['name'], 'down' if cl['name'] in down else 'up'])
        hosts = [h for h in cl['hosts']]
        with ns(cl['gw']):
            ip_batch(['link set %s %s' % (plan['nodes'][h]['port'], 'down' if h in down else 'up') for h in hosts])


def stop_delayd():
    pid = load('delayd', None)
    if pid and _alive(pid):
        kill_pids([pid])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(STATE + '/delayd.json')


def apply_shape(plan):
    """State 'shape': {cluster: {rate, delay, jitter, loss}}; then cuts/links
    again, as bridge ports may be new."""
    shape = load('shape', {})
    stop_delayd()
    with ns('wan'):
        have = set(os.listdir('/proc/sys/net/ipv4/conf'))
        slow = []
        for name in plan['clusters']:
            v, p = 'v-' + name, 'p-' + name
            s = shape.get(name, {})
            sh(['tc', 'qdisc', 'del', 'dev', v if v in have else p, 'root'], check=False)
            if v in have:                     # undo an older relay
                ip_batch(['link del %s' % p, 'link set %s down' % v, 'link set %s name %s' % (v, p),
                          'link set %s master br0' % p, 'link set %s up' % p])
            if any(s.get(k) for k in ('delay', 'jitter', 'loss')):
                ip_batch(['link set %s down nomaster' % p, 'link set %s name %s' % (p, v),
                          'link set %s up' % v, 'link add %s type veth peer name d-%s' % (p, name),
                          'link set d-%s up' % name, 'link set %s master br0 up' % p])
                slow.append({'name': name, **s})
        if slow:
            log = open(STATE + '/delayd.log', 'w')
            r, w = os.pipe()
            p = subprocess.Popen([sys.executable, HERE + '/grid-delayd', str(w)], pass_fds=[w],
                                 stdin=subprocess.PIPE, stdout=log, stderr=log,
                                 start_new_session=True, cwd='/')
            os.close(w)
            save('delayd', p.pid)
            p.stdin.write(json.dumps(slow).encode())
            p.stdin.close()
            ok = os.read(r, 1)
            os.close(r)
            if ok != b'k':
                raise GridError('grid-delayd did not start: see %s/delayd.log' % STATE)
    for name, c in plan['clusters'].items():
        rate = shape.get(name, {}).get('rate')
        for node, dev in (('wan', 'p-' + name), (c['gw'], 'wan')):
            with ns(node):
                if rate or node != 'wan':
                    sh(['tc', 'qdisc', 'del', 'dev', dev, 'root'], check=False)
                if rate:
                    sh(['tc', 'qdisc', 'add', 'dev', dev, 'root', 'tbf', 'rate', rate,
                        'burst', '64kb', 'latency', '200ms'])
    apply_links(plan)
    apply_cuts(plan)


# --------------------------------------------------------------- up/down --
def hosts_file(plan, cluster):
    """/etc/hosts as seen from inside one cluster."""
    out = ['127.0.0.1 localhost', '::1 localhost']
    for c in plan['clusters'].values():
        mine = c['name'] == cluster
        out.append('%s %s' % (c['lan'] if mine else c['wan'], c['gw']))
        if mine or c['class'] != 'nat':
            out += ['%s %s' % (plan['nodes'][h]['ip'], h) for h in c['hosts']]
    return '\n'.join(out) + '\n'


SSHD = '''Port 22
ListenAddress 0.0.0.0
HostKey {d}/host_key
AuthorizedKeysFile {d}/id.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
GatewayPorts clientspecified
AllowTcpForwarding yes
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 500
MaxSessions 500
ClientAliveInterval 5
ClientAliveCountMax 3
'''
SSH = '''Host *
 User root
 IdentityFile {d}/id
 IdentitiesOnly yes
 UserKnownHostsFile {d}/known_hosts
 GlobalKnownHostsFile /dev/null
 StrictHostKeyChecking yes
 BatchMode yes
 ConnectTimeout 5
 ServerAliveInterval 5
 ServerAliveCountMax 3
 ExitOnForwardFailure yes
 LogLevel ERROR
'''


def sshd_nodes(plan):
    if plan['sshd'] == 'none':
        return []
    if plan['sshd'] == 'all':
        return list(plan['nodes'])
    out = []
    for c in plan['clusters'].values():
        if c['class'] == 'blocked':
            out += [c['gw']] + (c['hosts'] if plan['sshd'] == 'blocked' else [])
    return out + [plan['ssh_from']] if out else []


def start_sshd(plan):
    nodes = sshd_nodes(plan)
    if not nodes:
        return
    sshd = shutil.which('sshd') or '/usr/sbin/sshd'
    if not os.path.exists(sshd):
        raise GridError('no sshd: apt-get install openssh-server')
    d = STATE + '/ssh'
    os.makedirs(d, mode=0o700, exist_ok=True)
    os.makedirs('/run/sshd', mode=0o755, exist_ok=True)
    for k in ('id', 'host_key'):
        sh(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'grid-testbed throw-away', '-f', d + '/' + k])
    with open(d + '/host_key.pub') as f:
        pub = ' '.join(f.read().split()[:2])
    with open(d + '/known_hosts', 'w') as f:
        f.write('* %s\n' % pub)
    with open(d + '/sshd_config', 'w') as f:
        f.write(SSHD.format(d=d))
    with open(d + '/config', 'w') as f:
        f.write(SSH.format(d=d))
    for n in nodes:
        start_sshd_at(n)


def start_sshd_at(node):
    """The same once more, after it has been ended. The port may not be free yet: again until it listens."""
    d = STATE + '/ssh'
    sshd = shutil.which('sshd') or '/usr/sbin/sshd'
    end = time.time() + 60
    while True:
        subprocess.run([HERE + '/grid-exec', node, sshd, '-f', d + '/sshd_config', '-E', '%s/sshd.%s.log' % (d, node),
                        '-o', 'PidFile=%s/sshd.%s.pid' % (d, node)], check=False)
        for _ in range(20):  # it listens before it goes into the background, or soon after
            tcp = subprocess.run([HERE + '/grid-exec', node, 'cat', '/proc/net/tcp'], capture_output=True, text=True)
            if any(line.split()[1].endswith(':0016') and line.split()[3] == '0A' for line in tcp.stdout.splitlines()[1:]):
                return
            time.sleep(0.05)
        if time.time() > end:
            raise GridError('sshd does not listen at %s: see %s/sshd.%s.log' % (node, d, node))


def quiet_node(forward):
    """Sysctls of one namespace (we are inside it)."""
    sysctl('net/ipv6/conf/default/disable_ipv6', 1, must=False)   # eth0 etc.; lo keeps ::1
    sysctl('net/ipv4/ip_forward', 1 if forward else 0)
    for k in ('all', 'default'):
        sysctl('net/ipv4/conf/%s/send_redirects' % k, 0)
        sysctl('net/ipv4/conf/%s/accept_redirects' % k, 0)
        sysctl('net/ipv4/conf/%s/rp_filter' % k, 0)
    # bridged packets must not pass the gateway's inet forward chain
    for k in ('arptables', 'iptables', 'ip6tables'):
        sysctl('net/bridge/bridge-nf-call-' + k, 0, must=False)
    sysctl('net/ipv4/ping_group_range', '0 0', must=False)


def up(plan, log=lambda s: None):
    for x in os.listdir(STATE) if os.path.isdir(STATE) else []:
        raise GridError('state left in %s: grid-down first' % STATE)
    os.makedirs(STATE + '/hosts', mode=0o755)
    t0 = time.time()

    def lap(what):
        log('%6.2f s  %s' % (time.time() - t0, what))
    # raise the (machine-wide) ARP table limit if it could be reached
    n = len(plan['nodes'])
    gc = '/proc/sys/net/ipv4/neigh/default/gc_thresh3'
    need = 2 * (sum(len(c['hosts']) ** 2 for c in plan['clusters'].values()) + len(plan['clusters']) ** 2 + 2 * n)
    try:
        with open(gc) as f:
            old = int(f.read())
        if old < need:
            with open(gc, 'w') as f:
                f.write(str(need))
            save('gc_thresh3', old)
    except OSError:
        pass
    ip_batch(['netns add %s.%s' % (NAME, x) for x in ['wan'] + list(plan['nodes'])])
    lap('%d namespaces' % (n + 1))
    # sysctls first, so that new interfaces inherit them
    for x in ['wan'] + list(plan['nodes']):
        with ns(x):
            quiet_node(plan['nodes'].get(x, {}).get('gw', False))
    lap('sysctls')
    links = []
    for c in plan['clusters'].values():
        gw = '%s.%s' % (NAME, c['gw'])
        links.append('link add p-%s netns %s.wan type veth peer name wan netns %s' % (c['name'], NAME, gw))
        for h in c['hosts']:
            links.append('link add eth0 netns %s.%s type veth peer name %s netns %s'
                         % (NAME, h, plan['nodes'][h]['port'], gw))
    ip_batch(links)
    lap('%d veth pairs' % len(links))
    with ns('wan'):
        ip_batch(['link set lo up', 'link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0',
                  'link set br0 address %s up' % SINK] +
                 ['link set p-%s master br0 up' % x for x in plan['clusters']])
        sh(['nft', '-f', '-'], WAN_RULES)
    for c in plan['clusters'].values():
        with ns(c['gw']):
            b = ['link set lo up', 'link add lan type bridge stp_state 0 forward_delay 0 mcast_snooping 0']
            b += ['link set %s master lan up' % plan['nodes'][h]['port'] for h in c['hosts']]
            b += ['addr add %s/24 dev lan' % c['lan'], 'link set lan up',
                  'addr add %s/24 dev wan' % c['wan'], 'link set wan up']
            b += ['route add %s via %s' % (o['net'], o['wan']) for o in plan['clusters'].values()
                  if o is not c and o['class'] != 'nat']
            # anything else (a peer's private address) is dropped silently by the wan
            b += ['neigh add 10.77.0.254 lladdr %s dev wan nud permanent' % SINK,
                  'route add default via 10.77.0.254']
            ip_batch(b)
            rules = gw_rules(plan, c)
            if rules:
                sh(['nft', '-f', '-'], rules)
        for h in c['hosts']:
            with ns(h):
                ip_batch(['link set lo up', 'addr add %s/24 dev eth0' % plan['nodes'][h]['ip'],
                          'link set eth0 up', 'route add default via %s' % c['lan']])
        with open('%s/hosts/%s' % (STATE, c['name']), 'w') as f:
            f.write(hosts_file(plan, c['name']))
    for x, nd in plan['nodes'].items():
        os.symlink(nd['cluster'], '%s/hosts/%s' % (STATE, x))
    lap('addresses, routes, nft')
    start_sshd(plan)
    lap('sshd in %d namespaces' % len(sshd_nodes(plan)))
    save('plan', plan)


def down(log=lambda s: None):
    pids = our_processes()
    kill_pids(pids)
    if pids:
        log('ended %d processes' % len(pids))
    nss = our_namespaces()
    if nss:
        ip_batch(['netns del ' + x for x in nss])
    left = our_namespaces()
    if left:
        raise GridError('could not delete %s' % left)
    old = load('gc_thresh3', None)
    if old:
        sysctl('net/ipv4/neigh/default/gc_thresh3', old, must=False)
    shutil.rmtree(STATE, ignore_errors=True)
    return len(nss)


def main(fn):
    try:
        sys.exit(fn(sys.argv[1:]) or 0)
    except GridError as e:
        print('%s: %s' % (os.path.basename(sys.argv[0]), e), file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)
