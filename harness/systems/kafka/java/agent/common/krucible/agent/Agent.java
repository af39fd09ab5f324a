package krucible.agent;

import java.io.IOException;
import java.io.PrintStream;
import java.io.Reader;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.dynamic.scaffold.TypeValidation;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;
import net.bytebuddy.pool.TypePool;

/**
 * Weaves hooks into Kafka's classes as they are loaded, so that the process tells of its raft client's inside.
 *
 * <p>{@code -javaagent:agent.jar=FILE}; the properties in the file are {@code file} (of the events),
 * {@code log} (the folder of the metadata log), {@code roles}, and for proofs {@code without} (hooks that are
 * left out) and {@code force} (what Kafka shall do wrong).
 */
public final class Agent implements ClassFileTransformer {
    private static final Map<String, String> OPTIONS = new HashMap<>();
    private static final Set<String> MISSING = new TreeSet<>(); // types of events that nobody tells
    private static final PrintStream SAYS = System.err;

    private final Map<String, List<Hook>> hooks = new HashMap<>(); // by the name of the class, with slashes
    private final Set<Hook> woven = new HashSet<>();

    private Agent(Collection<Hook> wanted) {
        for (Hook hook : wanted) {
            for (String type : hook.type()) {
                hooks.computeIfAbsent(type.replace('.', '/'), name -> new ArrayList<>()).add(hook);
            }
        }
    }

    public static void premain(String options, Instrumentation instrumentation) throws IOException {
        OPTIONS.put("incarnation", "" + System.nanoTime()); // the wall clock may go back between two processes
        Properties read = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(options), StandardCharsets.UTF_8)) {
            read.load(reader);
        }
        read.stringPropertyNames().forEach(name -> OPTIONS.put(name, read.getProperty(name)));
        List<Hook> wanted = new ArrayList<>(Hooks.ALL);
        List<String> without = List.of(OPTIONS.getOrDefault("without", "").split(","));
        wanted.removeIf(hook -> without.contains(hook.name()));
        wanted.addAll(Wrong.hooks(OPTIONS.getOrDefault("force", "")));
        Agent agent = new Agent(wanted);
        instrumentation.addTransformer(agent);
        for (Hook hook : wanted) {
            agent.load(hook);
        }
        for (Hook hook : Stream.concat(Hooks.ALL.stream(), wanted.stream()).distinct().toList()) {
            if (!agent.woven.contains(hook)) {
                SAYS.println("krucible agent: the hook " + hook.name() + " did not take hold; nobody tells of "
                    + String.join(", ", hook.tells()));
                MISSING.addAll(hook.tells());
            }
        }
    }

    public static Map<String, String> options() {
        return OPTIONS;
    }

    /** The types of events that nobody tells of, for a hook has not taken hold. */
    public static Collection<String> missing() {
        return MISSING;
    }

    /** Say on the process's output what went wrong here. */
    public static void complain(String what, Throwable error) {
        SAYS.println("krucible agent: " + what);
        error.printStackTrace(SAYS);
    }

    /** Have the class of a hook loaded, and so woven: what is missing is known before the node begins. */
    private void load(Hook hook) {
        for (String type : hook.type()) {
            try {
                Class.forName(type, false, ClassLoader.getSystemClassLoader());
            } catch (ClassNotFoundException e) {
                continue; // it has another name in this release, or is in none: then it is missing
            }
        }
    }

    @Override
    public byte[] transform(
        ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes
    ) {
        List<Hook> here = name == null ? null : hooks.get(name);
        if (here == null) {
            return null;
        }
        try {
            return woven(loader, name.replace('/', '.'), bytes, here);
        } catch (Throwable e) {
            complain("cannot weave hooks into " + name, e);
            return null;
        }
    }

    private byte[] woven(ClassLoader loader, String name, byte[] bytes, List<Hook> here) {
        ClassFileLocator locator = new ClassFileLocator.Compound(
            ClassFileLocator.Simple.of(name, bytes), ClassFileLocator.ForClassLoader.of(loader));
        TypeDescription type = TypePool.Default.of(locator).describe(name).resolve();
        DynamicType.Builder<?> builder = new ByteBuddy().with(TypeValidation.DISABLED).redefine(type, locator);
        List<Hook> found = new ArrayList<>();
        for (Hook hook : here) {
            ElementMatcher.Junction<MethodDescription> method = hook.method().contains("<init>")
                ? ElementMatchers.isConstructor() : ElementMatchers.namedOneOf(hook.method().toArray(String[]::new));
            if (hook.arguments() >= 0) {
                method = method.and(ElementMatchers.takesArguments(hook.arguments()));
            }
            method = method.and(ElementMatchers.not(ElementMatchers.isBridge()));
            if (!type.getDeclaredMethods().filter(method).isEmpty()) {
                builder = builder.visit(Advice.to(hook.advice(), ClassFileLocator.ForClassLoader.of(Agent.class.getClassLoader())).on(method));
                found.add(hook);
            }
        }
        byte[] made = builder.make().getBytes();
        woven.addAll(found);
        return made;
    }
}
